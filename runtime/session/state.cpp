// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/state.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"
#include "runtime/core/runtime.h"

namespace quarry {
namespace {

// `outer` parts of `bytes` each. Parts may move within one block, to where they lie nearer together or farther apart.
void move_parts(void *to, std::uint64_t to_pitch, const void *from, std::uint64_t from_pitch, std::uint64_t outer,
                std::uint64_t bytes) noexcept {
  const bool backwards = to == from && to_pitch > from_pitch;
  for (std::uint64_t i = 0; i < outer && bytes > 0; ++i) {
    const std::uint64_t part = backwards ? outer - 1 - i : i;
    std::memmove(static_cast<char *>(to) + part * to_pitch, static_cast<const char *>(from) + part * from_pitch, bytes);
  }
}

}  // namespace

State::State(SessionCore &core) : core_(&core), values_(core.state().pairs.size()) {
  for (Value &value : values_) {
    const qrm::TensorInfo &info = core.inputs()[pair_of(value).input];
    value.input.dtype = static_cast<qr_dtype>(info.dtype);
    value.input.rank = static_cast<std::uint32_t>(info.dims.size());
    if (!is_fixed(value)) value.output.flags = kOfState;  // (else the session has room for it)
    forget(value);
  }
}

State::~State() {
  for (const Value &value : values_) free_block(value.block);
}

void State::forget(Value &value) noexcept {
  const qrm::TensorInfo &info = core_->inputs()[pair_of(value).input];
  value.is_known = false;
  std::ranges::copy(info.dims, value.input.dims);
  if (grows(value)) value.input.dims[pair_of(value).axis] = 0;
}

// Of known dimensions, whose product was checked when they became known.
State::Extent State::extent_of(const Value &value) const noexcept {
  Extent extent;
  const std::int64_t *const dims = value.input.dims;
  const auto dtype = static_cast<DType>(value.input.dtype);
  if (!grows(value)) {
    extent.entry = *packed_size(dtype, *element_count(dims, value.input.rank));
    return extent;
  }
  const auto axis = static_cast<std::uint32_t>(pair_of(value).axis);
  extent.entry = dtype_bits(dtype) / 8;
  extent.entries = length_of(value);
  for (std::uint32_t d = 0; d < value.input.rank; ++d)
    if (d != axis) (d < axis ? extent.outer : extent.entry) *= static_cast<std::uint64_t>(dims[d]);
  return extent;
}

// ---- what programs ask for ----------------------------------------------------------------------

std::uint64_t State::length() const noexcept {
  for (const Value &value : values_)
    if (grows(value)) return length_of(value);
  return 0;
}

std::uint64_t State::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) sum += info(i).bytes;
  return sum;
}

qr_state_info State::info(std::size_t index) const noexcept {
  const Value &value = values_[index];
  const StatePair &pair = pair_of(value);
  const String &output = core_->outputs()[pair.output].name;
  qr_state_info info = QR_STATE_INFO_INIT;
  info.axis = pair.axis;
  info.input = {name_of(value).data(), name_of(value).size()};
  info.output = {output.data(), output.size()};
  info.dtype = value.input.dtype;
  info.rank = value.input.rank;
  std::copy_n(value.input.dims, info.rank, info.dims);
  info.capacity = grows(value) ? core_->state().capacity : 0;
  info.bytes = value.held;
  return info;
}

void State::reset() noexcept {
  for (Value &value : values_) forget(value);
  dropped_ = 0;
}

Status State::rewind(std::uint64_t length) {
  if (length == 0) return reset(), Status();
  for (const Value &value : values_) {
    if (grows(value) ? length <= length_of(value) : length == this->length()) continue;
    if (grows(value))
      return Status::errorf(ErrorId::state_length, "qr_state_rewind: found length %llu, expected at most %llu", length,
                            length_of(value));
    return Status::errorf(ErrorId::state_keeps_size,
                          "qr_state_rewind: found length %llu, expected 0 or %llu: input '%s' keeps its size, and what "
                          "it was then is not known",
                          length, this->length(), printable(name_of(value)));
  }
  for (Value &value : values_) {
    if (!grows(value)) continue;
    const Extent extent = extent_of(value);
    if (!stays(value))
      move_parts(value.input.data, length * extent.entry, value.input.data, extent.entries * extent.entry, extent.outer,
                 length * extent.entry);
    value.input.dims[pair_of(value).axis] = static_cast<std::int64_t>(length);
  }
  return {};
}

Status State::read(std::size_t index, qr_tensor &out) const {
  const Value &value = values_[index];
  if (!value.is_known)
    return Status::errorf(ErrorId::state_no_value, "qr_state_read: input '%s' has no value yet, expected a run before",
                          printable(name_of(value)));
  const std::uint64_t bytes = extent_of(value).bytes();
  if (out.data) {
    if (out.size_bytes < bytes)
      return Status::errorf(ErrorId::run_room, "qr_state_read: found room for %llu bytes, expected %llu for input '%s'",
                            out.size_bytes, bytes, printable(name_of(value)));
    const Extent extent = extent_of(value);
    const std::uint64_t part = extent.entries * extent.entry;
    move_parts(out.data, part, value.input.data, pitch_of(value, extent) * extent.entry, extent.outer, part);
  }
  out.dtype = value.input.dtype;
  out.rank = value.input.rank;
  std::copy_n(value.input.dims, QR_MAX_RANK, out.dims);
  out.size_bytes = bytes;
  return {};
}

Status State::write(std::size_t index, const qr_tensor &tensor) {
  Value &value = values_[index];
  const void *const data = tensor.const_data ? tensor.const_data : tensor.data;
  if (tensor.dtype != value.input.dtype)
    return Status::errorf(ErrorId::run_dtype, "qr_state_write: found %s for input '%s', expected %s",
                          qr_dtype_name(tensor.dtype), printable(name_of(value)), qr_dtype_name(value.input.dtype));
  if (!fits(value, tensor.dims, tensor.rank, core_->inputs()[pair_of(value).input].dims.data()))
    return other_shape(value, tensor.dims, tensor.rank);
  if (tensor.memory || !data || (tensor.data && tensor.const_data))
    return Status::errorf(ErrorId::run_no_data, "qr_state_write: input '%s': expected data or const_data alone",
                          printable(name_of(value)));
  return put(value, tensor.dims, data, tensor.size_bytes ? tensor.size_bytes : UINT64_MAX);
}

// `size`: how much there is of the value, dense.
Status State::put(Value &value, const std::int64_t *dims, const void *dense, std::uint64_t size) {
  const auto count = element_count(dims, value.input.rank);
  const auto bytes = count ? packed_size(static_cast<DType>(value.input.dtype), *count) : std::nullopt;
  if (!bytes || size < *bytes) return other_shape(value, dims, value.input.rank);
  QR_RETURN_IF_ERROR(make_room(value, dims));
  const Extent extent = extent_of(value);
  const std::uint64_t part = extent.entries * extent.entry;
  move_parts(value.input.data, pitch_of(value, extent) * extent.entry, dense, part, extent.outer, part);
  value.is_known = true;
  return {};
}

Result<Ref<State>> State::fork() const {
  auto made = Ref<State>::make(*core_);
  made->dropped_ = dropped_;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    Value &to = made->values_[i];
    if (!values_[i].is_known) continue;
    QR_RETURN_IF_ERROR(made->make_room(to, values_[i].input.dims));
    const Extent extent = extent_of(values_[i]);
    const std::uint64_t pitch = pitch_of(values_[i], extent) * extent.entry;
    move_parts(to.input.data, pitch, values_[i].input.data, pitch, extent.outer, extent.entries * extent.entry);
    to.is_known = true;
  }
  return made;
}

// ---- room ---------------------------------------------------------------------------------------

Status State::full(const Value &value, const std::int64_t *dims) const {
  return Status::errorf(ErrorId::state_full,
                        "input '%s': found shape %s, expected room for it: state.capacity is %llu entries",
                        printable(name_of(value)), shape_text(dims, value.input.rank), core_->state().capacity)
      .with("tensor", name_of(value));
}

Status State::other_shape(const Value &value, const std::int64_t *dims, std::uint32_t rank) const {
  return Status::errorf(ErrorId::state_shape, "state of input '%s': found shape %s, expected %s",
                        printable(name_of(value)), shape_text(dims, std::min<std::uint32_t>(rank, QR_MAX_RANK)),
                        shape_text(value.input.dims, value.input.rank))
      .with("tensor", name_of(value));
}

// Whether a shape is `expected`, where that is known, but along the axis that grows.
bool State::fits(const Value &value, const std::int64_t *dims, std::uint32_t rank,
                 const std::int64_t *expected) const noexcept {
  bool fits = rank == value.input.rank;
  for (std::int32_t axis = 0; fits && axis < static_cast<std::int32_t>(rank); ++axis)
    fits = dims[axis] >= 0 && (axis == pair_of(value).axis || expected[axis] < 0 || dims[axis] == expected[axis]);
  return fits;
}

// Takes dimensions, whose value the caller sees to. Memory stays where it is large enough.
Status State::make_room(Value &value, const std::int64_t *dims) {
  const std::uint64_t capacity = core_->state().capacity;
  std::int64_t most[QR_MAX_RANK];
  std::copy_n(dims, value.input.rank, most);
  if (grows(value)) {
    std::int64_t &length = most[pair_of(value).axis];
    if (static_cast<std::uint64_t>(length) > capacity) return full(value, dims);
    length = static_cast<std::int64_t>(capacity);
  }
  const auto count = element_count(most, value.input.rank);
  const auto bytes = count ? packed_size(static_cast<DType>(value.input.dtype), *count) : std::nullopt;
  if (!bytes) return full(value, dims);
  if (!value.block || value.room < *bytes) {
    const std::uint64_t room = (*bytes + 64) & ~std::uint64_t{63};
    std::uint64_t held = stays(value) ? room : 2 * room;
    if (stays(value) && core_->state().window > 0) {  // a part more: drop_old()
      std::uint64_t outer = 1;
      for (std::int32_t d = 0; d < pair_of(value).axis; ++d) outer *= static_cast<std::uint64_t>(dims[d]);
      held += room / std::max<std::uint64_t>(outer, 1);
    }
    void *const block = allocate_block(held, 64);
    if (is_fixed(value)) std::memset(block, 0, held);  // what the mask leaves out is numbers still
    value.held = held;
    free_block(value.block);
    value.block = value.input.data = block;
    if (!is_fixed(value)) value.output.data = block;
    if (!stays(value)) value.output.data = static_cast<char *>(block) + room;
    value.room = value.input.size_bytes = value.output.size_bytes = room;
    value.is_known = false;
  }
  std::copy_n(dims, value.input.rank, value.input.dims);
  return {};
}

// ---- runs ---------------------------------------------------------------------------------------

// The dimensions that this run says. A value that is not known yet begins with them.
Status State::resolve(Value &value, const qr_tensor *const *inputs) {
  std::int64_t dims[QR_MAX_RANK];
  std::copy_n(value.input.dims, QR_MAX_RANK, dims);
  for (const StatePair::Source &source : pair_of(value).sources)
    if (const qr_tensor &given = *inputs[source.input];
        source.input_axis < std::min<std::uint32_t>(given.rank, QR_MAX_RANK))
      dims[source.axis] = std::max<std::int64_t>(given.dims[source.input_axis], 0);
  for (std::uint32_t axis = 0; axis < value.input.rank; ++axis)
    if (dims[axis] < 0) dims[axis] = 1;  // which nobody says
  if (value.is_known) {
    if (!fits(value, dims, value.input.rank, value.input.dims)) return other_shape(value, dims, value.input.rank);
    return {};
  }
  QR_RETURN_IF_ERROR(make_room(value, dims));
  if (!grows(value)) std::memset(value.input.data, 0, value.room);
  return {};
}

Status State::lend(const qr_tensor **inputs, qr_tensor **outputs) {
  for (Value &value : values_) {
    if (!value.is_known) forget(value);  // what a run that failed said of it
    QR_RETURN_IF_ERROR(resolve(value, inputs));
    if (grows(value) && length_of(value) != length())
      return Status::errorf(ErrorId::state_shape, "state of input '%s': found %llu entries, expected %llu as before it",
                            printable(name_of(value)), length_of(value), length());
    value.output.size_bytes = value.room;  // (a run says there how much it wrote)
    inputs[pair_of(value).input] = &value.input;
    if (is_fixed(value)) {
      value.whole = value.input;
      value.whole.dims[pair_of(value).axis] = static_cast<std::int64_t>(core_->state().capacity);
      inputs[pair_of(value).input] = &value.whole;
      value.output.data = nullptr, value.output.flags = 0;  // of a session that may be another than the last
    }
    outputs[pair_of(value).output] = &value.output;
  }
  return {};
}

Status State::check(const Vector<qr_io_buffer> &outputs, std::uint64_t fresh) const {
  std::int64_t length = -1;
  for (const Value &value : values_) {
    const qr_io_buffer &made = outputs[pair_of(value).output];
    if (!fits(value, made.dims, made.rank, value.input.dims)) return other_shape(value, made.dims, made.rank);
    if (!grows(value)) continue;
    std::int64_t here = made.dims[pair_of(value).axis];
    if (is_fixed(value)) here = static_cast<std::int64_t>(length_of(value) + fresh);
    if (static_cast<std::uint64_t>(here) > core_->state().capacity) return full(value, made.dims);
    if (length >= 0 && here != length) return other_shape(value, made.dims, made.rank);
    length = here;
  }
  return {};
}

void State::take(const Vector<qr_io_buffer> &outputs, std::uint64_t fresh) noexcept {
  for (Value &value : values_) {
    const qr_io_buffer &made = outputs[pair_of(value).output];
    value.is_known = true;
    if (is_fixed(value)) {
      append(value, made, fresh);
      continue;
    }
    std::copy_n(made.dims, value.input.rank, value.input.dims);
    std::swap(value.input.data, value.output.data);
  }
  drop_old();
}

// The first `fresh` of the new entries, which a program of fixed shapes gives behind all of its capacity.
void State::append(Value &value, const qr_io_buffer &made, std::uint64_t fresh) noexcept {
  const Extent extent = extent_of(value);
  const std::int64_t axis = pair_of(value).axis;
  const std::uint64_t pitch = core_->state().capacity * extent.entry,
                      from_pitch = static_cast<std::uint64_t>(made.dims[axis]) * extent.entry;
  move_parts(static_cast<char *>(value.input.data) + extent.entries * extent.entry, pitch,
             static_cast<const char *>(made.data) + static_cast<std::uint64_t>(pair_of(value).kept) * extent.entry,
             from_pitch, extent.outer, fresh * extent.entry);
  value.input.dims[axis] += static_cast<std::int64_t>(fresh);
}

// Entries between the first, state.sink, and the last, state.window. Where entries stay, the first ones are moved to
// where the last begin, and the value begins there: all parts as much further on in the block, which is longer by a
// part. At its end everything is moved back to where it begins.
void State::drop_old() noexcept {
  const StatePlan &plan = core_->state();
  const std::uint64_t kept = plan.sink + plan.window;
  if (plan.window == 0 || length() <= kept) return;
  dropped_ += length() - kept;
  for (Value &value : values_) {
    if (!grows(value)) continue;
    const Extent extent = extent_of(value);
    const std::uint64_t gone = (extent.entries - kept) * extent.entry, first = plan.sink * extent.entry,
                        last = plan.window * extent.entry, from_pitch = pitch_of(value, extent) * extent.entry,
                        to_pitch = stays(value) ? from_pitch : kept * extent.entry;
    char *const from = static_cast<char *>(value.input.data);
    const bool slides = stays(value) && index_of(from - static_cast<char *>(value.block)) + gone <= from_pitch;
    char *const to = slides ? from + gone : stays(value) ? static_cast<char *>(value.block) : from;
    for (std::uint64_t i = 0; i < extent.outer; ++i) {
      char *const target = to + i * to_pitch, *const source = from + i * from_pitch;
      std::memmove(target, source, first);
      if (!slides) std::memmove(target + first, source + first + gone, last);
    }
    value.input.data = to;
    if (stays(value)) value.output.data = to;
    value.input.dims[pair_of(value).axis] = static_cast<std::int64_t>(kept);
  }
}

// ---- bytes --------------------------------------------------------------------------------------

namespace {

// What qr_state_save writes: this, how many entries were dropped (from version 2 on), and for each pair a record with
// its value behind it, dense. All little-endian.
struct Header {
  char magic[8];
  std::uint32_t version, count;
  std::uint64_t size, model, sum;  // of all bytes; SessionCore::identity(); of the bytes behind the header
};
struct Record {
  std::uint32_t dtype, rank;
  std::int64_t dims[QR_MAX_RANK];
  std::uint64_t bytes;  // 0 where it is not known
};
constexpr char kMagic[8] = {'Q', 'R', 'S', 'T', 'A', 'T', 'E', 0};
constexpr std::uint32_t kVersion = 2;
static_assert(sizeof(Header) == 40 && sizeof(Record) == 80);

}  // namespace

// What is behind the header.
Status State::write_values(FileSink &to) const {
  QR_RETURN_IF_ERROR(to.write(&dropped_, sizeof dropped_));
  for (const Value &value : values_) {
    Record record = {static_cast<std::uint32_t>(value.input.dtype), value.input.rank, {}, 0};
    std::copy_n(value.input.dims, value.input.rank, record.dims);
    const Extent extent = value.is_known ? extent_of(value) : Extent();
    record.bytes = extent.bytes();
    QR_RETURN_IF_ERROR(to.write(&record, sizeof record));
    const std::uint64_t part = extent.entries * extent.entry, pitch = pitch_of(value, extent) * extent.entry;
    for (std::uint64_t i = 0; i < extent.outer && part > 0; ++i)
      QR_RETURN_IF_ERROR(to.write(static_cast<const char *>(value.input.data) + i * pitch, part));
  }
  return {};
}

Status State::save(TargetWriter &to) const {
  struct : FileSink {
    Status begin(std::string_view, std::uint64_t, std::uint64_t) override { return {}; }
    Status write(const void *data, std::uint64_t bytes) override {
      hasher.add(data, bytes);
      size += bytes;
      return {};
    }
    Hasher64 hasher;
    std::uint64_t size = sizeof(Header);
  } first;
  QR_RETURN_IF_ERROR(write_values(first));
  Header header = {{},         kVersion,          static_cast<std::uint32_t>(values_.size()),
                   first.size, core_->identity(), first.hasher.sum()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  QR_RETURN_IF_ERROR(to.begin(to.name(), first.size, 0));
  QR_RETURN_IF_ERROR(to.write(&header, sizeof header));
  return write_values(to);
}

Status State::load(const void *from, std::uint64_t size) {
  const char *at = static_cast<const char *>(from);
  Header header = {};
  std::memcpy(&header, at, std::min<std::uint64_t>(size, sizeof header));
  const auto damaged = [&](const char *what) {
    return Status::errorf(ErrorId::state_damaged,
                          "qr_state_load: found %llu bytes %s, expected what qr_state_save wrote", size, what);
  };
  if (size < sizeof header || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return damaged("of another kind");
  if (header.version != kVersion)
    return Status::errorf(ErrorId::state_version, "qr_state_load: found version %u, expected %u", header.version,
                          kVersion);
  if (header.size != size) return damaged("of a state of another size");
  if (header.sum != hash64(at + sizeof header, size - sizeof header)) return damaged("whose sum is another");
  const auto other = [](const String &what) {
    return Status::errorf(ErrorId::state_of_other_model, "qr_state_load: %s", what);
  };
  if (header.model != core_->identity()) return other("found the state of another model, expected one of this");
  if (header.count != values_.size())
    return other(format("found %u pairs, expected %zu", header.count, values_.size()));
  State next(*core_);  // so that nothing is lost where something does not fit
  const char *const end = at + size;
  at += sizeof header;
  if (size < sizeof header + sizeof dropped_) return damaged("that end in a record");
  std::memcpy(&next.dropped_, at, sizeof dropped_);
  at += sizeof dropped_;
  for (Value &value : next.values_) {
    Record record;
    if (static_cast<std::uint64_t>(end - at) < sizeof record) return damaged("that end in a record");
    std::memcpy(&record, at, sizeof record);
    at += sizeof record;
    if (record.bytes > static_cast<std::uint64_t>(end - at)) return damaged("that end in a value");
    if (static_cast<qr_dtype>(record.dtype) != value.input.dtype || record.rank != value.input.rank)
      return other(format("found a value of another type or rank for input '%s'", printable(next.name_of(value))));
    if (record.bytes > 0) {
      if (!next.fits(value, record.dims, record.rank, value.input.dims))
        return next.other_shape(value, record.dims, record.rank);
      QR_RETURN_IF_ERROR(next.put(value, record.dims, at, record.bytes));
    }
    at += record.bytes;
  }
  values_.swap(next.values_);
  std::swap(dropped_, next.dropped_);
  return {};
}

}  // namespace quarry
