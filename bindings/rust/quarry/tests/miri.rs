// SPDX-License-Identifier: Apache-2.0
//! What Miri can see of the crate: everything on this side of the C ABI, with a library of one network (x + 1, f32) that is written here, so that pointers,
//! borrows and threads are followed to where the library would write.
//! `cargo +nightly miri test -p quarry --test miri`; without Miri there is nothing in it.
#![cfg(miri)]
#![allow(non_snake_case, clippy::missing_safety_doc)]
use quarry::{Call, Code, DType, F16, Model, OwnedTensor, RunOptions, Runtime, Session, Signal, Source, TensorMut, TensorRef, Waited};
use quarry_sys as sys;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::future::Future;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;

// ---- the library
struct Library {
    room: Vec<f32>,
    runs: Mutex<HashMap<u64, (JoinHandle<()>, Arc<AtomicBool>)>>,
}

unsafe fn give<T>(out: *mut *mut T) -> *mut sys::qr_status {
    unsafe { *out = Box::into_raw(Box::new(0u64)).cast() };
    null_mut()
}
unsafe fn free(object: *mut c_void) {
    unsafe { drop(Box::from_raw(object.cast::<u64>())) }
}
/// A status is a number: the code.
fn failure(code: sys::qr_code) -> *mut sys::qr_status {
    Box::into_raw(Box::new(code as u64)).cast()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_runtime_create(_: *const sys::qr_runtime_options, out: *mut *mut sys::qr_runtime) -> *mut sys::qr_status {
    unsafe { give(out) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_runtime_destroy(runtime: *mut sys::qr_runtime) {
    unsafe { free(runtime.cast()) }
}
#[unsafe(no_mangle)]
extern "C" fn qr_abi_version() -> u32 {
    sys::QR_ABI_MAJOR << 16 | sys::QR_ABI_MINOR
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_model_open(
    _: *mut sys::qr_runtime, source: *const sys::qr_model_source, _: *const sys::qr_options, _: *const sys::qr_call_options, out: *mut *mut sys::qr_model,
) -> *mut sys::qr_status {
    let source = unsafe { &*source };
    let mut content = vec![0u8; source.size_bytes as usize];
    match source.kind {
        sys::QR_SOURCE_READER => {
            for (i, part) in content.chunks_mut(2).enumerate() {
                if unsafe { source.read.unwrap()(source.self_, 2 * i as u64, part.as_mut_ptr().cast(), part.len() as u64) } != 0 {
                    return failure(sys::QR_UNAVAILABLE);
                }
            }
        }
        _ => content = unsafe { std::slice::from_raw_parts(source.data.cast::<u8>(), content.len()) }.to_vec(),
    }
    if content != b"x + 1" {
        return failure(sys::QR_CORRUPT);
    }
    unsafe { give(out) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_model_destroy(model: *mut sys::qr_model) {
    unsafe { free(model.cast()) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_create(
    _: *const sys::qr_model, _: *const sys::qr_options, _: *const sys::qr_call_options, out: *mut *mut sys::qr_session,
) -> *mut sys::qr_status {
    unsafe { *out = Box::into_raw(Box::new(Library { room: Vec::new(), runs: Mutex::default() })).cast() };
    null_mut()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_clone(_: *mut sys::qr_session, _: *const sys::qr_call_options, out: *mut *mut sys::qr_session) -> *mut sys::qr_status {
    unsafe { qr_session_create(null_mut(), null_mut(), null_mut(), out) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_destroy(session: *mut sys::qr_session) {
    drop(unsafe { Box::from_raw(session.cast::<Library>()) })
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_input_count(_: *const sys::qr_session) -> u64 {
    1
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_output_count(_: *const sys::qr_session) -> u64 {
    1
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_output(_: *const sys::qr_session, _: u64, info: *mut sys::qr_tensor_info) -> *mut sys::qr_status {
    unsafe { (*info).dtype = sys::QR_DTYPE_F32 };
    null_mut()
}
unsafe fn input_data(input: *const sys::qr_tensor) -> *const f32 {
    let input = unsafe { &*input };
    if input.const_data.is_null() { input.data.cast_const().cast() } else { input.const_data.cast() }
}
/// Reads and writes as the C library would: through the raw pointers alone.
unsafe fn compute(input: *const sys::qr_tensor, output: *mut sys::qr_tensor, room: Option<&mut Vec<f32>>) -> *mut sys::qr_status {
    unsafe {
        let count = (*input).size_bytes as usize / 4;
        if (*output).data.is_null() {
            let Some(room) = room else { return failure(sys::QR_INVALID_ARGUMENT) };
            room.resize(count, 0.0);
            (*output).data = room.as_mut_ptr().cast();
            (*output).flags = sys::QR_TENSOR_OF_SESSION;
        } else if (*output).flags != 0 {
            return failure(sys::QR_INTERNAL);
        } else if (*output).size_bytes < (*input).size_bytes {
            return failure(sys::QR_OUT_OF_RANGE);
        }
        for i in 0..count {
            (*output).data.cast::<f32>().add(i).write(input_data(input).add(i).read() + 1.0);
        }
        ((*output).dtype, (*output).rank, (*output).dims, (*output).size_bytes) = ((*input).dtype, (*input).rank, (*input).dims, (*input).size_bytes);
        null_mut()
    }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_run(
    session: *mut sys::qr_session, _: *const sys::qr_run_options, inputs: *const *const sys::qr_tensor, _: u64, outputs: *const *mut sys::qr_tensor, _: u64,
) -> *mut sys::qr_status {
    unsafe { compute(*inputs, *outputs, Some(&mut (*session.cast::<Library>()).room)) }
}
struct Lent(*const sys::qr_tensor, *mut sys::qr_tensor, *mut c_void);
unsafe impl Send for Lent {}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_submit(
    session: *mut sys::qr_session, options: *const sys::qr_submit_options, inputs: *const *const sys::qr_tensor, count: u64,
    outputs: *const *mut sys::qr_tensor, _: u64, ticket: *mut u64,
) -> *mut sys::qr_status {
    if count != 1 {
        return failure(sys::QR_INVALID_ARGUMENT);
    }
    let mut runs = unsafe { &(*session.cast::<Library>()).runs }.lock().unwrap();
    let (number, stop) = (runs.len() as u64 + 1, Arc::new(AtomicBool::new(false)));
    let (lent, done, stopped) = unsafe { (Lent(*inputs, *outputs, (*options).self_), (*options).done.unwrap(), Arc::clone(&stop)) };
    let thread = std::thread::spawn(move || unsafe {
        let lent = lent;
        std::thread::yield_now();
        if !stopped.load(Ordering::SeqCst) {
            assert!(compute(lent.0, lent.1, None).is_null());
        }
        done(lent.2, number, null_mut());
    });
    runs.insert(number, (thread, stop));
    unsafe { *ticket = number };
    null_mut()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_wait(session: *mut sys::qr_session, ticket: u64, signal: *mut sys::qr_signal, ended: *mut i32) -> *mut sys::qr_status {
    if !signal.is_null() {
        unsafe { *ended = 0 };
        return failure(sys::QR_CANCELLED);
    }
    let (thread, _) = unsafe { &(*session.cast::<Library>()).runs }.lock().unwrap().remove(&ticket).unwrap();
    thread.join().unwrap();
    unsafe { *ended = 1 };
    null_mut()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_signal_create(_: *mut sys::qr_runtime, out: *mut *mut sys::qr_signal) -> *mut sys::qr_status {
    unsafe { give(out) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_signal_destroy(signal: *mut sys::qr_signal) {
    unsafe { free(signal.cast()) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_session_abort(session: *mut sys::qr_session, ticket: u64) {
    unsafe { &(*session.cast::<Library>()).runs }.lock().unwrap()[&ticket].1.store(true, Ordering::SeqCst);
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_destroy(status: *mut sys::qr_status) {
    if !status.is_null() {
        unsafe { free(status.cast()) }
    }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_code(status: *const sys::qr_status) -> sys::qr_code {
    unsafe { *status.cast::<u64>() as sys::qr_code }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_id(_: *const sys::qr_status) -> *const c_char {
    c"QR-C0002".as_ptr()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_message(_: *const sys::qr_status) -> *const c_char {
    c"it failed".as_ptr()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_hint(_: *const sys::qr_status) -> *const c_char {
    std::ptr::null()
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_detail_count(_: *const sys::qr_status) -> u64 {
    1
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_status_detail(_: *const sys::qr_status, _: u64, key: *mut *const c_char, value: *mut *const c_char) {
    unsafe { (*key, *value) = (c"reason".as_ptr(), c"of its own".as_ptr()) }
}
#[unsafe(no_mangle)]
unsafe extern "C" fn qr_dtype_name(_: sys::qr_dtype) -> *const c_char {
    c"f32".as_ptr()
}

// ---- the tests
fn session() -> Session<'static> {
    let runtime = Runtime::new().unwrap();
    let model = Model::from_memory(&runtime, b"x + 1", None).unwrap();
    Session::new(&model, None).unwrap()
}
fn owned(values: &[f32]) -> OwnedTensor {
    OwnedTensor::new(&[values.len()], values).unwrap()
}

#[test]
fn inputs_where_they_lie_and_outputs_of_the_session() {
    let mut session = session();
    let values = [1.0f32, 2.0, 3.0];
    for _ in 0..2 {
        let input = TensorRef::new(&[3], &values).unwrap();
        let outputs = session.run(&[input]).unwrap();
        assert_eq!((outputs.data::<f32>(0).unwrap(), outputs.shape(0), outputs.bytes(0).len()), (&[2.0f32, 3.0, 4.0][..], vec![3], 12));
        assert!(outputs.data::<i32>(0).is_err());
    }
    let outputs = session.run(&[TensorRef::new(&[3], &values).unwrap()]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(outputs.data::<f32>(0).unwrap(), [2.0, 3.0, 4.0]));
        scope.spawn(|| assert_eq!(outputs.data::<f32>(0).unwrap(), [2.0, 3.0, 4.0]));
    });
    let mut twin = session.try_clone().unwrap();
    std::thread::spawn(move || assert_eq!(twin.run(&[TensorRef::new(&[1], &[7.0f32]).unwrap()]).unwrap().data::<f32>(0).unwrap(), [8.0])).join().unwrap();
}

#[test]
fn room_of_the_caller() {
    let mut session = session();
    let values = [1.0f32, 2.0];
    let mut room = [9.0f32; 3];
    let mut outputs = [TensorMut::new(&mut room)];
    session.run_into(&[TensorRef::new(&[2], &values).unwrap()], &mut outputs, RunOptions::default()).unwrap();
    assert_eq!((outputs[0].shape(), outputs[0].size_bytes(), outputs[0].dtype()), (vec![2], 8, DType::F32));
    assert_eq!(room, [2.0, 3.0, 9.0]);
    let mut words = [9i32; 3];
    assert!(session.run_into(&[TensorRef::new(&[2], &values).unwrap()], &mut [TensorMut::new(&mut words)], RunOptions::default()).is_err());
    assert_eq!(words, [9; 3]);
    let mut small = [0.0f32; 1];
    let error = session.run_into(&[TensorRef::new(&[2], &values).unwrap()], &mut [TensorMut::new(&mut small)], RunOptions::default()).unwrap_err();
    assert_eq!((error.code(), error.id(), error.details()), (Code::OutOfRange, "QR-C0002", &[("reason".to_string(), "of its own".to_string())][..]));
    assert_eq!(error.to_string(), "QR-C0002: it failed; of its own");
}

#[test]
fn views_of_every_kind() {
    assert!(TensorRef::new(&[2, 2], &[1.0f32; 3]).is_err());
    assert!(TensorRef::new(&[usize::MAX, 3], &[1u8]).is_err());
    TensorRef::new(&[2], &[F16(1), F16(2)]).unwrap();
    TensorRef::from_bools(&[2], &[true, false]).unwrap();
    TensorRef::from_bytes(DType::I4, &[3], &[0x21, 0x03]).unwrap();
    TensorRef::new::<f64>(&[0], &[]).unwrap();
    let words = OwnedTensor::new(&[3], &[1u16, 2, 3]).unwrap();
    assert_eq!((words.data::<u16>().unwrap(), words.data::<f32>().is_err()), (&[1u16, 2, 3][..], true));
    assert!(Model::from_memory(&Runtime::new().unwrap(), b"nonsense", None).is_err_and(|error| error.code() == Code::Corrupt));
}

#[test]
fn models_are_read_by_functions() {
    let runtime = Runtime::new().unwrap();
    let content = b"x + 1";
    let source = Source::by(5, |offset, part| {
        part.copy_from_slice(&content[offset as usize..][..part.len()]);
        Ok(())
    });
    Model::open_with(&runtime, source, None, Call::new()).unwrap();
    let mut file = std::io::Cursor::new(content);
    Model::open_with(&runtime, Source::reader(&mut file).unwrap(), None, Call::new()).unwrap();
    let fails = Source::by(5, |_, _| Err(std::io::ErrorKind::Other.into()));
    assert!(Model::open_with(&runtime, fails, None, Call::new()).is_err_and(|error| error.code() == Code::Unavailable));
    let panics = std::panic::catch_unwind(|| Model::open_with(&runtime, Source::by(5, |_, _| panic!("read")), None, Call::new()).map(drop));
    assert_eq!(panics.unwrap_err().downcast_ref(), Some(&"read"));
}

#[test]
fn queued_runs_waited_for_dropped_and_forgotten() {
    let session = session();
    let room = || vec![OwnedTensor::zeros(DType::F32, &[2]).unwrap()];
    let (inputs, outputs) = session.submit(vec![owned(&[1.0, 2.0])], room(), None).unwrap().wait().unwrap();
    assert_eq!((inputs[0].data::<f32>().unwrap(), outputs[0].data::<f32>().unwrap()), (&[1.0f32, 2.0][..], &[2.0f32, 3.0][..]));
    drop(session.submit(vec![owned(&[1.0, 2.0])], room(), None).unwrap());
    // A waiting that ends first leaves the run what it was given.
    let signal = Signal::new(&Runtime::new().unwrap()).unwrap();
    let run = session.submit(vec![owned(&[1.0, 2.0])], room(), None).unwrap();
    let Waited::Running(run, error) = run.wait_with(&signal) else { panic!("it has ended") };
    assert_eq!((error.code(), run.wait().unwrap().1[0].data::<f32>().unwrap()), (Code::Cancelled, &[2.0f32, 3.0][..]));
    let run = session.submit(vec![owned(&[1.0, 2.0])], room(), None).unwrap();
    drop(run.wait_with(&signal));
    let refused = session.submit(vec![], room(), None).err().unwrap();
    assert_eq!((refused.error.code(), refused.outputs.len()), (Code::InvalidArgument, 1));
}

struct Unpark(std::thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn queued_runs_awaited() {
    let session = session();
    let mut run = std::pin::pin!(session.submit(vec![owned(&[5.0])], vec![owned(&[0.0])], None).unwrap());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (_, outputs) = loop {
        match run.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => break result.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(outputs[0].data::<f32>().unwrap(), [6.0]);
}
