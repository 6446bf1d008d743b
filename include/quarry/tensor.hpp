// SPDX-License-Identifier: Apache-2.0
// Tensors of quarry.hpp: what a model says of its inputs and outputs (TensorInfo), and views of data for a run
// (Tensor).
#ifndef QUARRY_TENSOR_HPP
#define QUARRY_TENSOR_HPP

#include <quarry/macros_off.hpp>
#include <quarry/result.hpp>

#include <initializer_list>
#include <iterator>
#include <type_traits>

namespace qr {

// What is known of an input or output, with a copy of its name.
struct TensorInfo {
  std::string name;
  qr_dtype dtype = QR_DTYPE_UNKNOWN;
  std::vector<std::int64_t> dims;  // QR_DIM_UNKNOWN where a dimension is symbolic or known only after a run
  std::uint64_t size_bytes = 0;
  std::uint32_t is_quantized = 0;  // QR_QUANTIZED_...; 0: the values are what they say
  double scale = 0;                // per tensor; NaN where the scales below hold
  std::int64_t zero_point = 0;
  std::vector<float> scales;  // per channel and per block: see qr_tensor_info
  std::vector<std::int32_t> zero_points;
  std::int64_t block_size = 0;  // 0: no blocks
  std::uint32_t quantized_axis = 0;

  TensorInfo() = default;
  explicit TensorInfo(const qr_tensor_info &info)
      : name(from_c(info.name)),
        dtype(info.dtype),
        dims(info.dims, info.dims + info.rank),
        size_bytes(info.size_bytes),
        is_quantized(info.is_quantized),
        scale(info.scale),
        zero_point(info.zero_point),
        block_size(info.block_size),
        quantized_axis(info.quantized_axis) {
    if (info.scales) scales.assign(info.scales, info.scales + info.scale_count);
    if (info.zero_points) zero_points.assign(info.zero_points, info.zero_points + info.scale_count);
  }
};

namespace detail {

template <class T>
using AskTensor = qr_status *(*)(const T *, std::uint64_t, qr_tensor_info *);

template <class T>
Result<TensorInfo> tensor(const T *object, std::uint64_t index, AskTensor<T> function) noexcept {
  return in_memory([&]() -> Result<TensorInfo> {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    Status status(function(object, index, &info));
    if (!status.ok()) return Result<TensorInfo>(std::move(status));
    return Result<TensorInfo>(TensorInfo(info));
  });
}

template <class T, class Ask>
Result<std::vector<TensorInfo>> tensors(const T *object, std::uint64_t count, Ask function) noexcept {
  return in_memory([&]() -> Result<std::vector<TensorInfo>> {
    std::vector<TensorInfo> list;
    list.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      qr_tensor_info info = QR_TENSOR_INFO_INIT;
      Status status(function(object, i, &info));
      if (!status.ok()) return Result<std::vector<TensorInfo>>(std::move(status));
      list.emplace_back(info);
    }
    return Result<std::vector<TensorInfo>>(std::move(list));
  });
}

}  // namespace detail

// The data type of a C++ type.
template <class T>
constexpr qr_dtype dtype_of() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, float>) return QR_DTYPE_F32;
  else if constexpr (std::is_same_v<U, double>) return QR_DTYPE_F64;
  else if constexpr (std::is_same_v<U, bool>) return QR_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::int8_t>) return QR_DTYPE_I8;
  else if constexpr (std::is_same_v<U, std::uint8_t>) return QR_DTYPE_U8;
  else if constexpr (std::is_same_v<U, std::int16_t>) return QR_DTYPE_I16;
  else if constexpr (std::is_same_v<U, std::uint16_t>) return QR_DTYPE_U16;
  else if constexpr (std::is_same_v<U, std::int32_t>) return QR_DTYPE_I32;
  else if constexpr (std::is_same_v<U, std::uint32_t>) return QR_DTYPE_U32;
  else if constexpr (std::is_same_v<U, std::int64_t>) return QR_DTYPE_I64;
  else if constexpr (std::is_same_v<U, std::uint64_t>) return QR_DTYPE_U64;
  else return QR_DTYPE_UNKNOWN;
}

// The dimensions of a tensor, outermost first. Those past QR_MAX_RANK are counted and not kept.
class Shape {
 public:
  Shape(const std::int64_t *dims, std::size_t rank) noexcept : rank_(rank) {
    for (std::size_t axis = 0; axis < rank && axis < QR_MAX_RANK; ++axis) dims_[axis] = dims[axis];
  }
  Shape(std::initializer_list<std::int64_t> dims) noexcept : Shape(dims.begin(), dims.size()) {}
  Shape(const std::vector<std::int64_t> &dims) noexcept : Shape(dims.data(), dims.size()) {}
  std::size_t rank() const noexcept { return rank_; }
  const std::int64_t *begin() const noexcept { return dims_; }
  const std::int64_t *end() const noexcept { return dims_ + (rank_ < QR_MAX_RANK ? rank_ : QR_MAX_RANK); }

 private:
  std::int64_t dims_[QR_MAX_RANK] = {};
  std::size_t rank_;
};

// A view of data, as qr_tensor is; owns nothing.
//
// A shape that no data can have (a negative dimension, more bytes than there can be, more elements than the array has)
// gives a tensor that says so: ok() is false, status() says why, every call that is given it refuses it with that
// status, and of the array nothing is touched.
class Tensor : public qr_tensor {
 public:
  static constexpr std::uint64_t unknown_room = ~std::uint64_t{0};

  Tensor() noexcept : qr_tensor QR_TENSOR_INIT {}
  // Data of any type; the size follows from type and shape. `room_bytes`: what there is at `place`, where that is
  // known.
  Tensor(qr_dtype type, const Shape &shape, void *place, std::uint64_t room_bytes = unknown_room) noexcept : Tensor() {
    dtype = type;
    refused_ = set_shape(shape, room_bytes);
    if (refused_) struct_size = rank = 0;  // no function of the C ABI takes it either
    else qr_tensor::data = place;
  }
  // Data of a C++ type: an input, or room for an output. `elements`: an array, a std::array, a std::vector, a
  // std::span, or a pointer to as many as the shape has. Constant elements are an input alone.
  template <class Elements>
  static Tensor of(Elements &&elements, const Shape &shape) noexcept {
    if constexpr (std::is_pointer_v<std::remove_reference_t<Elements>>) return of_type(elements, shape, unknown_room);
    else return of_type(std::data(elements), shape, std::size(elements) * sizeof *std::data(elements));
  }
  // The whole of an array as one dimension: room for an output of data-dependent shape.
  template <class Elements>
  static Tensor of(Elements &&elements) noexcept {
    return of(elements, {static_cast<std::int64_t>(std::size(elements))});
  }
  bool ok() const noexcept { return !refused_; }
  Status status() const noexcept { return refused_ ? Status(*refused_) : Status(); }
  // The data; NULL where the tensor holds another type.
  template <class T>
  T *data_if() const noexcept {
    static_assert(dtype_of<T>() != QR_DTYPE_UNKNOWN, "no data type for this C++ type: bytes() gives the data");
    return dtype_of<T>() == dtype ? static_cast<T *>(bytes()) : nullptr;
  }
  // The data; an error where the tensor holds another type.
  template <class T>
  Result<T *> try_data() const noexcept {
    if (dtype_of<T>() == dtype) return Result<T *>(data_if<T>());
    return Result<T *>(Status(detail::kOtherType, qr_dtype_name(dtype), qr_dtype_name(dtype_of<T>())));
  }
#if QR_HAS_EXCEPTIONS
  template <class T>
  T *data() const {
    return try_data<T>().value();
  }
#else
  template <class T>
  T *data() const = delete;  // try_data, or data_if
#endif
  // What a tensor of constant elements has must not be written, and no run does.
  void *bytes() const noexcept { return qr_tensor::data ? qr_tensor::data : const_cast<void *>(const_data); }
  std::vector<std::int64_t> shape() const {
    return std::vector<std::int64_t>(dims, dims + (rank < QR_MAX_RANK ? rank : QR_MAX_RANK));
  }

 private:
  template <class T>
  static Tensor of_type(T *elements, const Shape &shape, std::uint64_t room_bytes) noexcept {
    static_assert(dtype_of<T>() != QR_DTYPE_UNKNOWN, "no data type for this C++ type");
    Tensor made(dtype_of<T>(), shape, nullptr, room_bytes);
    if (!made.refused_) made.place(elements);
    return made;
  }
  void place(void *elements) noexcept { qr_tensor::data = elements; }
  void place(const void *elements) noexcept { const_data = elements; }  // an input alone: a run refuses it as an output
  // Sets rank, dims and size_bytes; gives why that cannot be.
  const detail::Refusal *set_shape(const Shape &shape, std::uint64_t room_bytes) noexcept {
    if (shape.rank() > QR_MAX_RANK) return &detail::kManyDimensions;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 56;  // elements: so many of any type have room in 64 bits
    std::uint64_t count = 1;
    bool huge = false, empty = false;
    for (const std::int64_t extent : shape) {
      if (extent < 0) return &detail::kNegativeDimension;
      const auto many = static_cast<std::uint64_t>(extent);
      empty = empty || many == 0;
      huge = huge || (many != 0 && count > kMost / many);
      if (!huge && many != 0) count *= many;
      dims[rank++] = extent;
    }
    if (huge && !empty) return &detail::kHugeShape;
    const std::uint64_t bytes = empty ? 0 : (count * qr_dtype_bits(dtype) + 7) / 8;
    if (bytes > room_bytes) return &detail::kSmallRoom;
    size_bytes = bytes;
    return nullptr;
  }
  const detail::Refusal *refused_ = nullptr;
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
