// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/padding.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "base/float16.h"
#include "base/json_writer.h"
#include "runtime/session/session.h"

namespace quarry {
namespace {

Status bad(const String &what, const char *hint = "") {
  return Status::error(ErrorId::bad_option_value, format("option shape.pad: %s", what), hint)
      .with("option", "shape.pad");
}

std::string_view dim_name(const qrm::TensorInfo &tensor, std::size_t axis) {
  return axis < tensor.dim_names.size() ? std::string_view(tensor.dim_names[axis]) : std::string_view();
}

// Whether a dimension's text has the symbol in it, as "2*seq + 1" has.
bool mentions(std::string_view text, std::string_view symbol) {
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (std::size_t at = text.find(symbol); at != text.npos; at = text.find(symbol, at + 1))
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + symbol.size())) return true;
  return false;
}

bool is_whole_number(double value) noexcept {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 &&
         static_cast<double>(static_cast<std::int64_t>(value)) == value;
}

// An element of the type; false: there is no such number in it.
bool element_of(const String &text, DType dtype, std::uint8_t *to) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) return false;
  const auto put = [to](const auto &bits) { return std::memcpy(to, &bits, sizeof bits), true; };
  switch (dtype) {
    case DType::F64: return put(value);
    case DType::F32: return put(static_cast<float>(value));
    case DType::F16: return put(f32_to_f16(static_cast<float>(value)));
    case DType::BF16: return put(f32_to_bf16(static_cast<float>(value)));
    default: break;
  }
  const std::uint32_t bits = dtype_bits(dtype);
  const DTypeKind kind = dtype_kind(dtype);
  if (kind == DTypeKind::None || kind == DTypeKind::Float || !is_whole_number(value)) return false;
  const auto number = static_cast<std::int64_t>(value);
  const std::uint32_t most = kind == DTypeKind::Bool ? 1 : kind == DTypeKind::Signed ? bits - 1 : std::min(bits, 63u);
  if (number < 0 ? kind != DTypeKind::Signed || number < -(std::int64_t{1} << (most - 1)) * 2
                 : most < 63 && number >> most)
    return false;
  std::memcpy(to, &number, bits / 8);  // little-endian
  return true;
}

// What lies in both at the same place, of `dims` elements. All dimensions count from the same axis.
void copy_box(char *to, const std::int64_t *to_dims, const char *from, const std::int64_t *from_dims,
              const std::int64_t *dims, std::uint32_t rank, std::uint64_t element) noexcept {
  if (rank == 0) return static_cast<void>(std::memcpy(to, from, element));
  std::uint64_t to_step = element, from_step = element;
  bool dense = true;
  for (std::uint32_t d = 1; d < rank; ++d) {
    to_step *= static_cast<std::uint64_t>(to_dims[d]), from_step *= static_cast<std::uint64_t>(from_dims[d]);
    dense &= to_dims[d] == dims[d] && from_dims[d] == dims[d];
  }
  const auto count = static_cast<std::uint64_t>(dims[0]);
  if (dense) return static_cast<void>(std::memcpy(to, from, count * to_step));
  for (std::uint64_t i = 0; i < count; ++i)
    copy_box(to + i * to_step, to_dims + 1, from + i * from_step, from_dims + 1, dims + 1, rank - 1, element);
}

double share(const Fit::Sizes &sizes, const Fit::Sizes &rooms) noexcept {
  double used = 1;
  for (std::size_t s = 0; s < sizes.size(); ++s)
    if (rooms[s] > 0) used *= static_cast<double>(sizes[s]) / static_cast<double>(rooms[s]);
  return used;
}

int percent(const Fit::Sizes &sizes, const Fit::Sizes &rooms) noexcept {
  return static_cast<int>(100 * (1 - share(sizes, rooms)) + 0.5);
}

}  // namespace

// ---- what is padded -----------------------------------------------------------------------------

class Padding::Planner {
 public:
  Planner(Padding &made, const StatePlan &state, const Vector<SessionBucket> &buckets)
      : made_(made), state_(state), buckets_(buckets) {}

  Status plan(std::string_view wanted) {
    if (buckets_.empty()) return bad("found nothing to run yet, expected a program", "leave context.recompile at wait");
    for (const SessionBucket &bucket : buckets_) QR_RETURN_IF_ERROR(check_fixed(bucket.tensors()));
    lay_out(made_.inputs_, made_.input_axes_);
    lay_out(made_.outputs_, made_.output_axes_);
    for (const EntryAxis &entry : state_.entries) {
      made_.capacity_ = state_.capacity;
      auto &by = made_.input_axes_[entry.input].by;
      if (std::ranges::find(by, kEntries) != by.end())
        return bad(format("input '%s' has several axes of past and new entries, expected one",
                          printable(made_.inputs_[entry.input].name)));
      by[entry.axis] = kEntries;
    }
    while (!wanted.empty()) {
      const std::string_view item = wanted.substr(0, wanted.find(','));
      wanted.remove_prefix(std::min(item.size() + 1, wanted.size()));
      if (!item.empty()) QR_RETURN_IF_ERROR(add(item));
    }
    if (!made_.symbols_.empty()) QR_RETURN_IF_ERROR(check_state());
    for (std::size_t i = 0; i < made_.inputs_.size(); ++i) QR_RETURN_IF_ERROR(check_input(i));
    for (std::size_t o = 0; o < made_.outputs_.size(); ++o)
      if (std::ranges::none_of(state_.pairs, [o](const StatePair &pair) { return pair.output == o; }))
        QR_RETURN_IF_ERROR(plan_output(o));
    open(made_.inputs_, made_.input_axes_);
    open(made_.outputs_, made_.output_axes_);
    return {};
  }

 private:
  static Status check_fixed(const loader::GraphTensors &tensors) {
    for (const auto *side : {&tensors.inputs, &tensors.outputs})
      for (const loader::TensorInfo &info : *side)
        if (!info.is_static)
          return bad(format("'%s' has the shape %s, expected numbers: runs of a range need no padding, and what only "
                            "a run knows the size of cannot be cut",
                            printable(info.name), shape_text(info.dims, info.rank)),
                     "leave the option out, or compile for buckets (option shape)");
    return {};
  }

  static void lay_out(const Vector<qrm::TensorInfo> &tensors, Vector<Axes> &axes) {
    for (const qrm::TensorInfo &tensor : tensors) {
      Axes &one = axes.emplace_back();
      one.by.fill(kNot);
      one.element = dtype_bits(tensor.dtype) / 8;
      if (tensor.quant && tensor.quant->per_tensor() && dtype_bits(tensor.dtype) >= 8)  // zero, of what it stands for
        std::memcpy(one.fill, tensor.quant->zero_points.data(), std::min(one.element, 4u));
    }
  }

  static void open(Vector<qrm::TensorInfo> &tensors, const Vector<Axes> &axes) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (std::size_t d = 0; d < tensors[i].dims.size(); ++d)
        if (axes[i].by[d] != kNot) tensors[i].dims[d] = qir::kUnknownDim;
  }

  // DIMENSION:INPUT or DIMENSION:INPUT=VALUE.
  Status add(std::string_view item) {
    const std::size_t colon = item.find(':');
    if (colon == item.npos || colon == 0 || colon + 1 == item.size())
      return bad(format("found '%s', expected DIMENSION:INPUT or DIMENSION:INPUT=VALUE, with commas between",
                        printable(item)));
    const std::string_view symbol = item.substr(0, colon);
    std::string_view name = item.substr(colon + 1), value;
    std::size_t input = place_of(name);
    if (const std::size_t equals = name.rfind('='); input == made_.inputs_.size() && equals != name.npos) {
      value = name.substr(equals + 1), name = name.substr(0, equals);
      input = place_of(name);
    }
    if (input == made_.inputs_.size())
      return bad(format("found no input '%s', expected one of the model's", printable(name)));
    QR_ASSIGN_OR_RETURN(const bool is_there, find_symbol(symbol, input));
    if (!is_there)
      return bad(format("input '%s' has no dimension '%s', expected one of an input's: %s", printable(name),
                        printable(symbol), named()));
    Axes &axes = made_.input_axes_[input];
    if (value.data() && !element_of(String(value), made_.inputs_[input].dtype, axes.fill))
      return bad(format("found '%s' for input '%s', expected a number of the type %s", printable(value),
                        printable(name), dtype_name(made_.inputs_[input].dtype)));
    return {};
  }

  std::size_t place_of(std::string_view input) const {
    return index_of(std::ranges::find(made_.inputs_, input, &qrm::TensorInfo::name) - made_.inputs_.begin());
  }

  // Marks the axes that go by the name, if it is new; whether `input` is among them.
  Result<bool> find_symbol(std::string_view name, std::size_t input) {
    bool is_of_input = false;
    std::int8_t number = kNot;
    for (std::size_t i = 0; i < made_.inputs_.size(); ++i)
      for (std::size_t d = 0; d < made_.inputs_[i].dims.size(); ++d) {
        if (dim_name(made_.inputs_[i], d) != name) continue;
        is_of_input |= i == input;
        std::int8_t &by = made_.input_axes_[i].by[d];
        if (by != kNot) continue;  // known, or of entries: the value counts alone
        if (number == kNot) {
          if (made_.symbols_.size() == Fit::kMost)
            return bad(format("found more than %zu dimensions, expected fewer", Fit::kMost));
          number = static_cast<std::int8_t>(made_.symbols_.size());
          made_.symbols_.push_back({String(name), static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(d)});
        }
        by = number;
      }
    return is_of_input;
  }

  String named() const {
    String text;
    for (const qrm::TensorInfo &input : made_.inputs_)
      for (const String &name : input.dim_names)
        if (!name.empty() && text.find(name) == text.npos) text += (text.empty() ? "" : ", ") + printable(name);
    return text.empty() ? "none has a name" : text;
  }

  // A state that keeps its size would be what the padded positions leave.
  Status check_state() const {
    for (const StatePair &pair : state_.pairs)
      if (!pair.is_fixed)
        return bad(format("the session keeps '%s' from run to run, which padded positions would change; expected no "
                          "state that keeps its size",
                          printable(made_.inputs_[pair.input].name)),
                   "run pieces of the size that was compiled, or leave the option state out");
    return {};
  }

  Status check_input(std::size_t i) const {
    const qrm::TensorInfo &input = made_.inputs_[i];
    const Axes &axes = made_.input_axes_[i];
    for (std::size_t d = 0; d < input.dims.size(); ++d) {
      const std::int8_t by = axes.by[d];
      if (by == kNot) {
        if (const Symbol *const symbol = mentioned(dim_name(input, d)))
          return bad(format("input '%s' has the dimension '%s', expected '%s' alone, along which it is padded",
                            printable(input.name), printable(dim_name(input, d)), printable(symbol->name)));
        continue;
      }
      if (axes.element == 0 || dtype_bits(input.dtype) % 8 != 0)
        return bad(
            format("input '%s' is %s, expected a type of whole bytes", printable(input.name), dtype_name(input.dtype)));
      if (by == kEntries && dtype_kind(input.dtype) == DTypeKind::Float && is_zero(axes))
        return bad(format("input '%s' is a mask of %s, expected the number that leaves an entry out",
                          printable(input.name), dtype_name(input.dtype)),
                   "shape.pad=DIMENSION:INPUT=-10000, with the mask's dimension of past and new entries");
      if (std::ranges::any_of(state_.pairs, [i](const StatePair &pair) { return pair.input == i; }))
        return bad(format("input '%s' is state, expected '%s' in no axis of it", printable(input.name),
                          printable(dim_name(input, d))));
    }
    return {};
  }

  static bool is_zero(const Axes &axes) {
    return std::ranges::all_of(axes.fill, [](std::uint8_t byte) { return byte == 0; });
  }

  const Symbol *mentioned(std::string_view text) const {
    for (const Symbol &symbol : made_.symbols_)
      if (mentions(text, symbol.name)) return &symbol;
    return nullptr;
  }

  std::int64_t extent(std::size_t bucket, bool is_output, std::size_t tensor, std::size_t axis) const {
    const loader::GraphTensors &tensors = buckets_[bucket].tensors();
    return (is_output ? tensors.outputs : tensors.inputs)[tensor].dims[axis];
  }
  // Whether an axis of an output is as long, in each bucket, as one of an input.
  bool goes_with(std::size_t output, std::size_t axis, std::size_t input, std::size_t input_axis) const {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      if (extent(b, true, output, axis) != extent(b, false, input, input_axis)) return false;
    return true;
  }
  bool differs(std::size_t output, std::size_t axis) const {
    for (std::size_t b = 1; b < buckets_.size(); ++b)
      if (extent(b, true, output, axis) != extent(0, true, output, axis)) return true;
    return false;
  }

  // What a caller is to get back of each axis. Names say it, and where an exporter gave none, the sizes of the buckets.
  Status plan_output(std::size_t o) {
    const qrm::TensorInfo &output = made_.outputs_[o];
    Axes &axes = made_.output_axes_[o];
    for (std::size_t d = 0; d < output.dims.size(); ++d) {
      const std::string_view name = dim_name(output, d);
      const bool is_open = differs(o, d) || (buckets_.size() == 1 && !name.empty());
      bool is_inputs = false;  // of a dimension that is not padded
      for (std::size_t i = 0; i < made_.inputs_.size(); ++i)
        for (std::size_t a = 0; a < made_.inputs_[i].dims.size(); ++a) {
          const std::int8_t by = made_.input_axes_[i].by[a];
          const bool has_name = !name.empty() && name == dim_name(made_.inputs_[i], a);
          if ((has_name || is_open) && goes_with(o, d, i, a)) {
            if (by == kNot) is_inputs |= has_name || differs(o, d);
            else if (axes.by[d] < 0 || has_name) axes.by[d] = by;
          } else if (has_name && by >= 0) {
            return uncut(o, d, made_.symbols_[index_of(by)].name);
          }
        }
      if (axes.by[d] == kEntries) return uncut(o, d, "entries of state");
      if (axes.by[d] >= 0) {
        if (dtype_bits(output.dtype) % 8 != 0 || axes.element == 0)
          return bad(format("output '%s' is %s, expected a type of whole bytes", printable(output.name),
                            dtype_name(output.dtype)));
      } else if (const Symbol *const symbol = mentioned(name)) {
        return uncut(o, d, symbol->name);
      } else if (is_open && !is_inputs && !made_.symbols_.empty()) {
        return uncut(o, d, made_.symbols_[0].name);
      }
    }
    return {};
  }

  Status uncut(std::size_t o, std::size_t axis, const String &symbol) const {
    const qrm::TensorInfo &output = made_.outputs_[o];
    String sizes;
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      sizes += format("%s%lld", b ? " or " : "", extent(b, true, o, axis));
    return bad(format("output '%s' has %s on axis %zu%s%s%s, expected what can be cut: '%s' alone, or a size that does "
                      "not depend on it",
                      printable(output.name), sizes, axis, dim_name(output, axis).empty() ? "" : " ('",
                      printable(dim_name(output, axis)), dim_name(output, axis).empty() ? "" : "')", printable(symbol)),
               "leave the output out (quarry cut), or run the sizes that were compiled");
  }

  Padding &made_;
  const StatePlan &state_;
  const Vector<SessionBucket> &buckets_;
};

Result<Unique<Padding>> Padding::make(std::string_view wanted, const StatePlan &state,
                                      const Vector<qrm::TensorInfo> &inputs, const Vector<qrm::TensorInfo> &outputs,
                                      const Vector<SessionBucket> &buckets) {
  if (wanted.empty() && state.entries.empty()) return Unique<Padding>();
  auto made = quarry::make_unique<Padding>();
  made->inputs_ = Vector<qrm::TensorInfo>(inputs);
  made->outputs_ = Vector<qrm::TensorInfo>(outputs);
  QR_RETURN_IF_ERROR(Planner(*made, state, buckets).plan(wanted));
  return made;
}

// ---- runs ---------------------------------------------------------------------------------------

bool Padding::fit(const Vector<SessionBucket> &buckets, const qr_tensor *const *inputs, std::uint64_t past, Fit &out,
                  std::size_t *out_bucket) const {
  Fit::Sizes sizes;
  sizes.fill(0);
  std::int64_t fresh = 0;
  for (std::size_t i = 0; i < input_axes_.size(); ++i) {
    if (inputs[i]->rank != inputs_[i].dims.size()) return false;
    for (std::size_t d = 0; d < inputs_[i].dims.size(); ++d) {
      const std::int8_t by = input_axes_[i].by[d];
      if (by == kNot) continue;
      std::int64_t &known = by == kEntries ? fresh : sizes[index_of(by)];
      const std::int64_t given = inputs[i]->dims[d] - (by == kEntries ? static_cast<std::int64_t>(past) : 0);
      if (given <= 0 || (known != 0 && known != given)) return false;
      known = given;
    }
  }
  double least = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const loader::GraphTensors &tensors = buckets[b].tensors();
    Fit::Sizes rooms;
    rooms.fill(0);
    double size = 1;
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      rooms[s] = tensors.inputs[symbols_[s].input].dims[symbols_[s].axis];
      size *= static_cast<double>(rooms[s]);
    }
    bool fits = true;
    for (std::size_t i = 0; fits && i < input_axes_.size(); ++i)
      for (std::size_t d = 0; fits && d < inputs_[i].dims.size(); ++d) {
        const std::int8_t by = input_axes_[i].by[d];
        const std::int64_t room = tensors.inputs[i].dims[d];
        if (by == kNot) {
          fits = inputs[i]->dims[d] == room;
        } else if (by != kEntries) {
          fits = sizes[index_of(by)] <= room;
        } else {
          // As many as the other inputs have of their own dimension, where that one is padded.
          std::int64_t expected = room - static_cast<std::int64_t>(capacity_);
          for (std::size_t s = 0; s < symbols_.size(); ++s)
            if (rooms[s] == room - static_cast<std::int64_t>(capacity_)) expected = sizes[s];
          fits = fresh == expected;
        }
      }
    if (!fits || (out.is_on && size >= least)) continue;
    least = size;
    out.is_on = true;
    out.program = &tensors;
    out.rooms = rooms;
    *out_bucket = b;
  }
  if (!out.is_on) return false;
  out.sizes = sizes;
  out.past = past, out.fresh = static_cast<std::uint64_t>(fresh);
  if (out.tensors.inputs.size() != inputs_.size() || out.targets.size() != outputs_.size()) {
    loader::GraphTensors tensors = *out.program;
    out.targets.resize(outputs_.size());
    out.tensors = std::move(tensors);
  }
  const auto resize = [&](const Vector<loader::TensorInfo> &from, const Vector<Axes> &axes,
                          Vector<loader::TensorInfo> &to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::uint32_t d = 0; d < from[i].rank; ++d) {
        const std::int8_t by = axes[i].by[d];
        to[i].dims[d] = by == kNot       ? from[i].dims[d]
                        : by == kEntries ? static_cast<std::int64_t>(past) + fresh
                                         : sizes[index_of(by)];
      }
      to[i].bytes = *packed_size(static_cast<DType>(to[i].dtype), *element_count(to[i].dims, to[i].rank));
    }
  };
  resize(out.program->inputs, input_axes_, out.tensors.inputs);
  resize(out.program->outputs, output_axes_, out.tensors.outputs);
  return true;
}

Status Padding::no_fit(const qr_tensor *const *inputs, std::uint64_t past, const Vector<SessionBucket> &buckets) const {
  const auto refused = [&](std::size_t i, std::size_t axis, const String &expected) {
    const std::string_view name = dim_name(inputs_[i], axis);
    const String dimension = name.empty() ? String() : format(" for dimension '%s'", printable(name));
    return Status::errorf(ErrorId::run_shape, "input %s: found %lld%s (axis %zu), expected %s",
                          printable(inputs_[i].name), inputs[i]->dims[axis], dimension, axis, expected)
        .with("tensor", inputs_[i].name);
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs[i]->rank != inputs_[i].dims.size())
      return Status::errorf(ErrorId::run_shape, "input %s: found %s, expected %s", printable(inputs_[i].name),
                            shape_text(inputs[i]->dims, inputs[i]->rank),
                            shape_text(inputs_[i].dims.data(), inputs_[i].dims.size()))
          .with("tensor", inputs_[i].name);
    for (std::size_t d = 0; d < inputs_[i].dims.size(); ++d) {
      const std::int8_t by = input_axes_[i].by[d];
      const std::int64_t found = inputs[i]->dims[d];
      std::int64_t most = 0;
      String extents;
      bool is_one = false;
      for (const SessionBucket &bucket : buckets) {
        const std::int64_t extent = bucket.tensors().inputs[i].dims[d];
        most = std::max(most, extent), is_one |= extent == found;
        extents += format("%s%lld", extents.empty() ? "" : " or ", extent);
      }
      if (by == kNot && !is_one) return refused(i, d, extents);
      if (by == kEntries && found <= static_cast<std::int64_t>(past))
        return refused(i, d, format("the %llu entries of the state and the new ones", past));
      if (by < 0) continue;
      if (found <= 0 || found > most) return refused(i, d, format("1..%lld", most));
      const Symbol &symbol = symbols_[index_of(by)];
      if (const std::int64_t first = inputs[symbol.input]->dims[symbol.axis]; found != first)
        return refused(i, d, format("%lld, as input %s has it", first, printable(inputs_[symbol.input].name)));
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    for (std::size_t d = 0; d < inputs_[i].dims.size(); ++d)
      if (input_axes_[i].by[d] == kEntries)
        return refused(i, d, format("the %llu entries of the state and as many new ones as the run has", past));
  return Status::errorf(ErrorId::run_shape, "found inputs that no shape bucket has room for together, expected one");
}

void Padding::lay(std::size_t input, void *to, const void *from, const Fit &fit) const noexcept {
  const loader::TensorInfo &room = fit.program->inputs[input], &given = fit.tensors.inputs[input];
  const Axes &axes = input_axes_[input];
  auto *const out = static_cast<char *>(to);
  if (std::ranges::all_of(axes.fill, [](std::uint8_t byte) { return byte == 0; })) std::memset(out, 0, room.bytes);
  else
    for (std::uint64_t at = 0; at < room.bytes; at += axes.element) std::memcpy(out + at, axes.fill, axes.element);
  std::int64_t dims[QR_MAX_RANK];
  std::copy_n(given.dims, given.rank, dims);
  const auto entries = index_of(std::ranges::find(axes.by, kEntries) - axes.by.begin());
  const auto *const in = static_cast<const char *>(from);
  if (entries == axes.by.size()) return copy_box(out, room.dims, in, given.dims, dims, given.rank, axes.element);
  // Past entries, nothing as far as the capacity, the new ones.
  std::uint64_t to_step = axes.element, from_step = axes.element;
  for (std::size_t d = entries + 1; d < given.rank; ++d) {
    to_step *= static_cast<std::uint64_t>(room.dims[d]);
    from_step *= static_cast<std::uint64_t>(given.dims[d]);
  }
  dims[entries] = static_cast<std::int64_t>(fit.past);
  copy_box(out, room.dims, in, given.dims, dims, given.rank, axes.element);
  dims[entries] = static_cast<std::int64_t>(fit.fresh);
  copy_box(out + capacity_ * to_step, room.dims, in + fit.past * from_step, given.dims, dims, given.rank, axes.element);
}

void Padding::cut(std::size_t output, void *to, const void *from, const Fit &fit) const noexcept {
  const loader::TensorInfo &room = fit.program->outputs[output], &given = fit.tensors.outputs[output];
  copy_box(static_cast<char *>(to), given.dims, static_cast<const char *>(from), room.dims, given.dims, given.rank,
           output_axes_[output].element);
}

String Padding::describe(const Fit::Sizes &sizes, const Fit::Sizes &rooms) const {
  String text;
  for (std::size_t s = 0; s < symbols_.size(); ++s)
    text += format("%s%s: %lld of %lld", s ? ", " : "", printable(symbols_[s].name), sizes[s], rooms[s]);
  return text + format(", %d %% padding", percent(sizes, rooms));
}

void Padding::write(JsonWriter &json, const Fit::Sizes &sizes, const Fit::Sizes &rooms) const {
  json.key("dimensions").begin_array();
  for (std::size_t s = 0; s < symbols_.size(); ++s)
    json.begin_object().field("name", symbols_[s].name).field("ran", sizes[s]).field("of", rooms[s]).end_object();
  json.end_array();
  json.field("padding_percent", percent(sizes, rooms)).field("last", describe(sizes, rooms));
}

}  // namespace quarry
