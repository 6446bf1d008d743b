// SPDX-License-Identifier: Apache-2.0
//! Views of data for a run.
use crate::error::{Error, Result};
use crate::memory::Memory;
use quarry_sys as sys;
use std::marker::PhantomData;

/// The element type of a tensor; the numbers are those of ONNX's TensorProto.DataType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
#[allow(missing_docs)]
pub enum DType {
    Unknown = sys::QR_DTYPE_UNKNOWN,
    F32 = sys::QR_DTYPE_F32,
    U8 = sys::QR_DTYPE_U8,
    I8 = sys::QR_DTYPE_I8,
    U16 = sys::QR_DTYPE_U16,
    I16 = sys::QR_DTYPE_I16,
    I32 = sys::QR_DTYPE_I32,
    I64 = sys::QR_DTYPE_I64,
    Bool = sys::QR_DTYPE_BOOL,
    F16 = sys::QR_DTYPE_F16,
    F64 = sys::QR_DTYPE_F64,
    U32 = sys::QR_DTYPE_U32,
    U64 = sys::QR_DTYPE_U64,
    BF16 = sys::QR_DTYPE_BF16,
    F8E4M3FN = sys::QR_DTYPE_F8E4M3FN,
    F8E4M3FNUZ = sys::QR_DTYPE_F8E4M3FNUZ,
    F8E5M2 = sys::QR_DTYPE_F8E5M2,
    F8E5M2FNUZ = sys::QR_DTYPE_F8E5M2FNUZ,
    U4 = sys::QR_DTYPE_U4,
    I4 = sys::QR_DTYPE_I4,
    F4E2M1 = sys::QR_DTYPE_F4E2M1,
    F8E8M0 = sys::QR_DTYPE_F8E8M0,
    U2 = sys::QR_DTYPE_U2,
    I2 = sys::QR_DTYPE_I2,
}

impl DType {
    pub(crate) fn of(number: sys::qr_dtype) -> Self {
        use DType::*;
        const ALL: [DType; 23] = [
            F32, U8, I8, U16, I16, I32, I64, Bool, F16, F64, U32, U64, BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, U4, I4, F4E2M1, F8E8M0, U2, I2,
        ];
        ALL.into_iter().find(|known| *known as i32 == number).unwrap_or(Unknown)
    }
    /// The bits of one element: 4 for I4.
    pub const fn bits(self) -> usize {
        use DType::*;
        match self {
            Unknown => 0,
            U2 | I2 => 2,
            U4 | I4 | F4E2M1 => 4,
            U8 | I8 | Bool | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 => 8,
            U16 | I16 | F16 | BF16 => 16,
            F32 | I32 | U32 => 32,
            F64 | I64 | U64 => 64,
        }
    }
    /// As ONNX's C++ users write it: "f32", "u8".
    pub fn name(self) -> &'static str {
        // SAFETY: a static text of plain letters.
        unsafe { std::ffi::CStr::from_ptr(sys::qr_dtype_name(self as i32)) }.to_str().unwrap_or("unknown")
    }
}

/// The bits of a 16-bit float of IEEE 754.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bfloat16: the upper half of an f32's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct BF16(pub u16);

/// A Rust type that tensors have.
///
/// # Safety
/// Every pattern of DTYPE.bits() bits is a value of the type.
pub unsafe trait Element: Copy + 'static {
    /// Its number.
    const DTYPE: DType;
}
macro_rules! elements {
    ($($kind:ty = $dtype:ident),*) => {$(
        // SAFETY: a number, whose every pattern is a value.
        unsafe impl Element for $kind { const DTYPE: DType = DType::$dtype; }
    )*};
}
elements!(f32 = F32, f64 = F64, u8 = U8, i8 = I8, u16 = U16, i16 = I16, u32 = U32, i32 = I32, u64 = U64, i64 = I64, F16 = F16, BF16 = BF16);

// SAFETY: the same bits under another crate's names.
#[cfg(feature = "half")]
unsafe impl Element for half::f16 {
    const DTYPE: DType = DType::F16;
}
// SAFETY: likewise.
#[cfg(feature = "half")]
unsafe impl Element for half::bf16 {
    const DTYPE: DType = DType::BF16;
}

/// The bytes of a tensor; None where the number has no room in 64 bits.
pub(crate) fn bytes_of(dtype: DType, shape: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
    Some(count.checked_mul(dtype.bits())?.checked_add(7)? / 8)
}

#[inline]
fn described(dtype: DType, shape: &[usize], has: usize, exact: bool) -> Result<sys::qr_tensor> {
    let mut made = sys::qr_tensor::INIT;
    if shape.len() > sys::QR_MAX_RANK as usize {
        return Err(Error::refused(format!("a tensor of {} dimensions, expected at most {}", shape.len(), sys::QR_MAX_RANK), ""));
    }
    let wanted = bytes_of(dtype, shape).filter(|bytes| i64::try_from(*bytes).is_ok());
    if wanted.is_none_or(|bytes| if exact { bytes != has } else { bytes > has }) {
        return Err(Error::refused(
            format!("found {has} bytes for a tensor of shape {shape:?} and type {}, expected {}", dtype.name(), wanted.map_or("fewer".into(), |b| b.to_string())),
            "give data of as many elements as the shape has",
        ));
    }
    made.dtype = dtype as i32;
    made.rank = shape.len() as u32;
    for (dim, extent) in made.dims.iter_mut().zip(shape) {
        *dim = *extent as i64;
    }
    made.size_bytes = has as u64;
    Ok(made)
}

/// An input: a shape and dense data of the caller's, or in device memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TensorRef<'a> {
    pub(crate) c: sys::qr_tensor,
    _data: PhantomData<&'a [u8]>,
}

// SAFETY: a view of shared data.
unsafe impl Send for TensorRef<'_> {}
unsafe impl Sync for TensorRef<'_> {}

impl<'a> TensorRef<'a> {
    /// Elements of a Rust type, used where they lie.
    #[inline]
    pub fn new<T: Element>(shape: &[usize], data: &'a [T]) -> Result<Self> {
        // SAFETY: an element has no holes.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), std::mem::size_of_val(data)) };
        Self::from_bytes(T::DTYPE, shape, bytes)
    }
    /// The same of bool.
    pub fn from_bools(shape: &[usize], data: &'a [bool]) -> Result<Self> {
        // SAFETY: a bool is a byte of 0 or 1.
        Self::from_bytes(DType::Bool, shape, unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) })
    }
    /// Bytes of any type; those under 8 bits are packed, the first element in the low bits.
    #[inline]
    pub fn from_bytes(dtype: DType, shape: &[usize], data: &'a [u8]) -> Result<Self> {
        let mut c = described(dtype, shape, data.len(), true)?;
        c.const_data = data.as_ptr().cast();
        Ok(Self { c, _data: PhantomData })
    }
    /// A part of device memory.
    pub fn in_memory(dtype: DType, shape: &[usize], memory: &'a Memory<'_>, offset: usize) -> Result<Self> {
        let mut c = described(dtype, shape, memory.size().saturating_sub(offset), false)?;
        c.size_bytes = bytes_of(dtype, shape).unwrap_or(0) as u64;
        c.memory = memory.get();
        c.memory_offset = offset as u64;
        Ok(Self { c, _data: PhantomData })
    }
}

/// The place of an output: room of the caller's, or in device memory.
pub struct TensorMut<'a> {
    c: sys::qr_tensor,
    wanted: DType, // Unknown: of any type
    room: u64,     // in bytes; a run leaves the result's size in `c`
    _data: PhantomData<&'a mut [u8]>,
}

// SAFETY: the only view of its data.
unsafe impl Send for TensorMut<'_> {}
unsafe impl Sync for TensorMut<'_> {}

impl<'a> TensorMut<'a> {
    /// Room of a Rust type; an output of another type is refused. The result may be smaller: shape() says what it is.
    #[inline]
    pub fn new<T: Element>(room: &'a mut [T]) -> Self {
        // SAFETY: every pattern of bits that a run writes is an element.
        let bytes = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), std::mem::size_of_val(room)) };
        Self { wanted: T::DTYPE, ..Self::from_bytes(bytes) }
    }
    /// Room in bytes, for an output of any type: dtype() says which.
    #[inline]
    pub fn from_bytes(room: &'a mut [u8]) -> Self {
        let mut c = sys::qr_tensor::INIT;
        c.data = room.as_mut_ptr().cast();
        c.size_bytes = room.len() as u64;
        Self { c, wanted: DType::Unknown, room: room.len() as u64, _data: PhantomData }
    }
    /// A part of device memory, from `offset` to its end.
    pub fn in_memory(memory: &'a mut Memory<'_>, offset: usize) -> Self {
        let mut c = sys::qr_tensor::INIT;
        c.memory = memory.get();
        c.memory_offset = offset as u64;
        c.size_bytes = memory.size().saturating_sub(offset) as u64;
        Self { c, wanted: DType::Unknown, room: c.size_bytes, _data: PhantomData }
    }
    /// Before each run: all of the room is there for it.
    #[inline]
    pub(crate) fn prepare(&mut self) {
        self.c.size_bytes = self.room;
        self.c.flags = 0;
    }
    /// The type that the room is of; Unknown where any will do.
    #[inline]
    pub(crate) fn wanted(&self) -> DType {
        self.wanted
    }
    /// # Safety
    /// `this` points to a TensorMut.
    #[inline]
    pub(crate) unsafe fn place(this: *mut Self) -> *mut sys::qr_tensor {
        // SAFETY: as promised.
        unsafe { &raw mut (*this).c }
    }
    /// The result's type, once a run has written it.
    pub fn dtype(&self) -> DType {
        DType::of(self.c.dtype)
    }
    /// The result's dimensions.
    pub fn shape(&self) -> Vec<usize> {
        shape_of(&self.c)
    }
    /// The result's bytes: so much of the room is filled. All of it before a run.
    pub fn size_bytes(&self) -> usize {
        self.c.size_bytes as usize
    }
}

pub(crate) fn shape_of(tensor: &sys::qr_tensor) -> Vec<usize> {
    tensor.dims[..tensor.rank.min(sys::QR_MAX_RANK) as usize].iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect()
}

/// Tensors of the arrays of one release of ndarray's.
macro_rules! arrays_of {
    ($feature:literal, $ndarray:ident) => {
        /// An array where it lies; one that is not in standard layout is refused.
        #[cfg(feature = $feature)]
        impl<'a, T: Element, S: $ndarray::Data<Elem = T>, D: $ndarray::Dimension> TryFrom<&'a $ndarray::ArrayBase<S, D>> for TensorRef<'a> {
            type Error = Error;
            fn try_from(array: &'a $ndarray::ArrayBase<S, D>) -> Result<Self> {
                match array.as_slice() {
                    Some(data) => Self::new(array.shape(), data),
                    None => Err(Error::refused(
                        format!("an array of shape {:?} and strides {:?}, expected one in standard layout", array.shape(), array.strides()),
                        "as_standard_layout() makes a copy that is",
                    )),
                }
            }
        }
    };
}
arrays_of!("ndarray", ndarray);
arrays_of!("ndarray_0_16", ndarray_0_16);

#[cfg(feature = "ndarray")]
impl<'a> TensorRef<'a> {
    /// An array of ndarray's, where it lies; one that is not in standard layout is refused.
    pub fn from_array<T: Element, D: ndarray::Dimension>(array: &'a ndarray::ArrayBase<impl ndarray::Data<Elem = T>, D>) -> Result<Self> {
        array.try_into()
    }
}
