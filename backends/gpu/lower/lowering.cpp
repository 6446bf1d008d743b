// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/lower/lowering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/common/node_event.h"
#include "backends/common/op_types.h"
#include "backends/gpu/lower/quantized.h"
#include "backends/gpu/lower/rules.h"
#include "base/checked.h"
#include "base/float16.h"
#include "graph/ops/op_spec.h"
#include "quarry/backend.h"

namespace quarry::gpu {

namespace {

using enum OperatorRow::Types;
constexpr OperatorRow kOperators[] = {
#define QR_GPU_OPERATOR(op, rule, types, refuses, remark) \
  {qir::Op::op, rule, types,                              \
   sizeof(refuses) == 1  ? remark                         \
   : sizeof(remark) == 1 ? "not: " refuses                \
                         : remark "; not: " refuses,      \
   refuses},
#include "backends/gpu/lower/operators.inc"
#undef QR_GPU_OPERATOR
};

constexpr std::size_t kMostFused = 24;

bool is_known(const qir::Shape &shape) {
  return std::ranges::all_of(shape, [](std::int64_t dim) { return dim >= 0; });
}

}  // namespace

const OperatorRow *find_operator(qir::Op op) noexcept {
  for (const OperatorRow &row : kOperators)
    if (row.op == op) return &row;
  return nullptr;
}

bool takes(const OperatorRow &row, DType dtype) noexcept {
  const std::optional<Number> number = number_of(dtype);
  if (!number) return false;
  return row.types == Any || (row.types == NoF64 ? dtype != DType::F64 : is_real(*number));
}

String types_text(const OperatorRow &row) {
  std::uint32_t taken = 0;
  for (std::int64_t number = 1; number < 32; ++number)
    if (const auto dtype = dtype_from_number(number); dtype && takes(row, *dtype)) taken |= qir::dtype_bit(*dtype);
  return plugin::types_text(row.op, taken);
}

Status refuse(ErrorId id, const qir::Node &node, String reason, std::string_view hint) {
  return Status::error(id, qir::op_text(node) + ": " + reason, hint);
}

Status lower_rewritten(Lowering &lowering, const qir::Node &node) {
  String found;
  for (const std::int32_t id : node.inputs) {
    if (id == qir::kAbsent) continue;
    const qir::Tensor &tensor = lowering.tensor(id);
    found += format("%s%s%s%s", found.empty() ? "" : ", ", tensor.is_constant ? "a constant " : "",
                    dtype_name(tensor.dtype), shape_text(tensor.shape.data(), tensor.shape.size()));
  }
  const OperatorRow *const row = find_operator(node.op);
  const std::string_view limits = row ? row->refuses : "";
  return refuse(ErrorId::backend_limit, node,
                format("found %s, expected a form that can be decomposed", found) +
                    (limits.empty() ? String() : "; not: " + String(limits)));
}
Status lower_late(Lowering &, const qir::Node &node) {
  return refuse(
      ErrorId::backend_limit, node,
      "found shapes that are known, expected data-dependent ones: it is run by the host alone (gpu.tail=host)");
}
bool is_rewritten(qir::Op op) noexcept {
  const OperatorRow *const row = find_operator(op);
  return !row || row->rule == lower_rewritten;
}

std::uint64_t bits_of(Number number, double value) noexcept {
  std::uint64_t bits = 0;
  switch (number) {
    case Number::Float: {
      const float real = static_cast<float>(value);
      std::memcpy(&bits, &real, sizeof real);
      return bits;
    }
    case Number::Double: std::memcpy(&bits, &value, sizeof value); return bits;
    case Number::Ulong: return static_cast<std::uint64_t>(value);
    default: return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
}

// ---- code ---------------------------------------------------------------------------------------

std::uint32_t Code::add(Element element, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  list_.push_back({static_cast<std::uint32_t>(element), 0, a, b, c, 0, 0, 0});
  return kFirst + static_cast<std::uint32_t>(list_.size()) - 1;
}
std::uint32_t Code::add(Element element, Number number, double p, double q, std::uint32_t a) {
  list_.push_back({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(number), a, 0, 0, 0,
                   bits_of(number, p), bits_of(number, q)});
  return kFirst + static_cast<std::uint32_t>(list_.size()) - 1;
}
std::uint32_t Code::to(Number number, std::uint32_t a) {
  list_.push_back({static_cast<std::uint32_t>(Element::To), static_cast<std::uint32_t>(number), a, 0, 0, 0, 0, 0});
  return kFirst + static_cast<std::uint32_t>(list_.size()) - 1;
}
std::uint32_t Code::select(Number number, std::uint32_t condition, std::uint32_t a, std::uint32_t b) {
  list_.push_back(
      {static_cast<std::uint32_t>(Element::Select), static_cast<std::uint32_t>(number), condition, a, b, 0, 0, 0});
  return kFirst + static_cast<std::uint32_t>(list_.size()) - 1;
}
std::uint32_t Code::constant_bits(Number number, std::uint64_t bits) {
  list_.push_back(
      {static_cast<std::uint32_t>(Element::Constant), static_cast<std::uint32_t>(number), 0, 0, 0, 0, bits, 0});
  return kFirst + static_cast<std::uint32_t>(list_.size()) - 1;
}

bool Code::reads_coordinates() const noexcept {
  return std::ranges::any_of(
      list_, [](const Instruction &one) { return one.element == static_cast<std::uint32_t>(Element::Index); });
}

Vector<Instruction> Code::numbered(std::uint32_t operands, bool has_value) const {
  Vector<Instruction> out = list_;
  const std::uint32_t value = has_value ? 1 : 0;
  const auto place = [&](std::uint32_t r) {
    return r == kValue ? 0 : r >= kFirst ? value + operands + r - kFirst : value + r;
  };
  for (Instruction &one : out) one.a = place(one.a), one.b = place(one.b), one.c = place(one.c);
  return out;
}

// ---- the graph ----------------------------------------------------------------------------------

Lowering::Lowering(const qir::Graph &graph, qir::Store &store, const Target &target, Plan &plan, Constants &constants)
    : graph_(graph),
      store_(store),
      target_(target),
      plan_(plan),
      constants_(constants),
      uses_(graph),
      views_(graph.tensors.size()),
      done_(graph.nodes.size(), false) {
  plan_.names.push_back('\0');
  names_.emplace(String(), 0u);
}

Result<Vector<std::int64_t>> Lowering::integers(const qir::Node &node, std::size_t input, const char *what) const {
  const std::int32_t id = node.inputs[input];
  if (id == qir::kAbsent) return Vector<std::int64_t>();
  const qir::Tensor &t = tensor(id);
  if (!t.is_constant)
    return refuse(ErrorId::backend_limit, node, format("found %s that the run computes, expected a constant", what));
  Vector<std::int64_t> values(static_cast<std::size_t>(strided::count_of(t.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (t.dtype == DType::I64) values[i] = static_cast<const std::int64_t *>(t.data.data)[i];
    else if (t.dtype == DType::I32) values[i] = static_cast<const std::int32_t *>(t.data.data)[i];
    else
      return refuse(ErrorId::backend_type, node,
                    format("found %s of %s, expected i32 or i64", what, dtype_name(t.dtype)));
  }
  return values;
}

std::optional<Vector<float>> Lowering::reals(std::int32_t id) const {
  const qir::Tensor &t = tensor(id);
  if (!t.is_constant || t.quant) return std::nullopt;
  Vector<float> values(static_cast<std::size_t>(strided::count_of(t.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (t.dtype) {
      case DType::F32: values[i] = static_cast<const float *>(t.data.data)[i]; break;
      case DType::F64: values[i] = static_cast<float>(static_cast<const double *>(t.data.data)[i]); break;
      case DType::F16: values[i] = f16_to_f32(static_cast<const std::uint16_t *>(t.data.data)[i]); break;
      case DType::BF16: values[i] = bf16_to_f32(static_cast<const std::uint16_t *>(t.data.data)[i]); break;
      default: return std::nullopt;
    }
  }
  return values;
}

// ---- values -------------------------------------------------------------------------------------

std::uint32_t Lowering::new_value(std::uint64_t bytes) {
  plan_.values.push_back({StorageKind::Arena, 0, 0, bytes});
  return static_cast<std::uint32_t>(plan_.values.size() - 1);
}

View Lowering::constant(qir::Bytes contents, Dims dims) {
  const auto [at, added] = constant_values_.emplace(contents.data, 0u);
  if (added) {
    at->second = new_value(contents.size);
    plan_.values[at->second].storage = StorageKind::Constant;
    entries_.emplace(at->second, constants_.entries.size());
    constants_.entries.push_back({at->second, contents});
  }
  Dims strides = strided::row_major(dims);
  return {static_cast<std::int32_t>(at->second), 0, std::move(dims), std::move(strides)};
}

const qir::Bytes *Lowering::contents(const View &view) const {
  const auto found = entries_.find(static_cast<std::uint32_t>(view.value));
  return found == entries_.end() ? nullptr : &constants_.entries[found->second].contents;
}

void Lowering::define(std::int32_t id, View view) {
  View &known = views_[index_of(id)];
  views_before_.emplace_back(id, std::exchange(known, std::move(view)));
}

const View &Lowering::view(std::int32_t id) {
  const View &known = views_[index_of(id)];
  if (known.value == strided::kNoValue && tensor(id).is_constant) {
    define(id, constant(tensor(id).data, shape(id)));
    if (tensor(id).quant) quants_[known.value] = &*tensor(id).quant;
  }
  return known;
}

View Lowering::layout(std::int32_t id) const {
  const View &known = views_[index_of(id)];
  if (known.value != strided::kNoValue) return known;
  return {strided::kNoValue, 0, shape(id), strided::row_major(shape(id))};
}

View Lowering::dense(std::int32_t id) {
  const View v = view(id);
  if (strided::is_row_major(v)) return v;
  View made = between(v.dims, dtype(id));
  if (!copy({v, dtype(id)}, {made, dtype(id)}).ok()) return v;  // whatever is wrong is found again by who reads it
  define(id, made);
  if (tensor(id).quant) quants_[made.value] = &*tensor(id).quant;
  return made;
}

// Whole integers of a value that a tensor of the model's lies in.
const qir::Quantization *Lowering::scaled(const View &view) const {
  const auto found = quants_.find(view.value);
  return found == quants_.end() ? nullptr : found->second;
}

Number Lowering::number(std::int32_t id) const {
  return scales_ && tensor(id).quant ? Number::Float : *number_of(dtype(id));
}

View Lowering::between(const Dims &dims, DType dtype) {
  const std::uint64_t bytes = packed_size(dtype, strided::count_of(dims)).value_or(0);
  return {static_cast<std::int32_t>(new_value(bytes)), 0, dims, strided::row_major(dims)};
}

View Lowering::result(std::int32_t id) {
  View made = between(shape(id), dtype(id));
  define(id, made);
  if (tensor(id).quant) quants_[made.value] = &*tensor(id).quant;
  return made;
}

std::uint32_t Lowering::name(std::string_view text) {
  const auto [at, added] = names_.emplace(String(text), static_cast<std::uint32_t>(plan_.names.size()));
  if (added) {
    plan_.names.insert(plan_.names.end(), text.begin(), text.end());
    plan_.names.push_back('\0');
  }
  return at->second;
}

// ---- steps --------------------------------------------------------------------------------------

Status Lowering::copy(const Arg &from, const Arg &to) {
  FusedExpression elements;
  elements.operands.push_back(from);
  elements.at = 0;
  return emit_elements(elements, to);
}

Status Lowering::emit_elements(const FusedExpression &elements, const Arg &result) {
  if (strided::count_of(result.view.dims) == 0) return {};
  Vector<View> views;
  for (const Arg &operand : elements.operands) views.push_back(strided::broadcast(operand.view, result.view.dims));
  if (elements.code.reads_coordinates()) {
    FusedExpression whole = elements;
    for (std::size_t i = 0; i < views.size(); ++i) whole.operands[i].view = views[i];
    return emit(ElementwiseParams(), result.view.dims, {}, whole, result);
  }
  Vector<const View *> all{&result.view};
  for (const View &v : views) all.push_back(&v);
  strided::Nest nest;
  strided::make_nest(all, kMaxRank, nest);
  FusedExpression merged = elements;
  for (std::size_t i = 0; i < views.size(); ++i)
    merged.operands[i].view = {views[i].value, views[i].offset, nest.dims, nest.strides[i + 1]};
  return emit(ElementwiseParams(), nest.dims, {}, merged,
              {{result.view.value, result.view.offset, nest.dims, nest.strides[0]}, result.dtype});
}

Status Lowering::emit_step(Kernel kernel, const Dims &dims, std::span<const std::int64_t> fields,
                           std::span<const Arg> base, const FusedExpression &elements, const Arg &result) {
  const KernelRow &row = kernel_row(kernel);
  const auto bad = [&](const char *what) {
    return Status::error(ErrorId::internal,
                         format("gpu: %s of node '%s': %s", row.name, at_ ? printable(at_->name).c_str() : "", what));
  };
  Vector<Arg> args(base.begin(), base.end());
  for (const Arg &operand : elements.operands) args.push_back(operand);
  args.push_back(result);
  for (std::size_t i = base.size(); i < args.size(); ++i) {
    if (args[i].view.dims == dims) continue;
    auto same = strided::reshaped(args[i].view, dims);
    if (!same) return bad("an operand cannot be walked so");
    args[i].view = std::move(*same);
  }
  // From here on a refusal is a limit of kernels.
  if (args.size() > kMaxOperands || dims.size() > kMaxRank || elements.code.size() > kMaxCode) {
    emission_refused_ = true;
    return refuse(ErrorId::backend_limit, at_ ? *at_ : qir::Node(),
                  format("found %zu operands, expected at most %zu", args.size(), kMaxOperands));
  }

  Step step;
  step.kernel = static_cast<std::uint32_t>(kernel);
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(args.size());
  Vector<std::int32_t> numbers;
  step.numbers = static_cast<std::uint32_t>(plan_.numbers.size());
  step.first_code = static_cast<std::uint32_t>(plan_.code.size());
  bool fits = true;
  const auto put = [&](std::int64_t number) {
    fits &= number >= INT32_MIN && number <= INT32_MAX;
    numbers.push_back(static_cast<std::int32_t>(number));
  };
  Form form;
  form.kernel = kernel;
  for (const std::int64_t field : fields) put(field);
  put(static_cast<std::int64_t>(dims.size()));
  form.nest.rank = static_cast<std::uint32_t>(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) put(dims[d]), form.nest.dims[d] = numbers.back();
  Vector<StepOperand> operands;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const View &v = args[i].view;
    if (v.rank() != dims.size()) return bad("an operand of other coordinates");
    for (std::size_t d = 0; d < dims.size(); ++d) put(v.strides[d]), form.nest.strides[i][d] = numbers.back();
    fits &= v.offset <= INT32_MAX;
    StepOperand &operand = operands.emplace_back(StepOperand{args[i].dtype, static_cast<std::int32_t>(v.offset)});
    if (scales_ && kernel != Kernel::Elementwise)
      if (const qir::Quantization *const quant = scaled(v))
        operand.scale = quant->scales[0], operand.zero = quant->zero_points[0];
  }
  if (!fits) {
    emission_refused_ = true;
    Status status = Status::error(ErrorId::backend_limit, "found a tensor of more elements than kernels count (2^31)");
    return at_ ? refuse(ErrorId::backend_limit, *at_, String(status.message())) : std::move(status);
  }
  const Vector<Instruction> code =
      elements.code.numbered(static_cast<std::uint32_t>(elements.operands.size()), row.value != 0);
  step.code_count = static_cast<std::uint32_t>(code.size());
  form.operands = operands;
  form.fields = std::span(numbers).first(fields.size());
  form.code = code;
  Bounds bounds;
  if (const Status found = find_bounds(form, bounds); !found.ok()) return bad(String(found.message()).c_str());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::int64_t end = operands[i].offset + bounds.ranges[i].high + 1;
    const std::uint64_t bytes = packed_size(operands[i].dtype, end).value_or(UINT64_MAX);
    if (bytes > plan_.values[index_of(args[i].view.value)].bytes)
      return bad(format("operand %zu reaches behind its value", i).c_str());
  }
  // Nothing refuses behind this.
  for (std::size_t i = 0; i < args.size(); ++i)
    plan_.operands.push_back({static_cast<std::uint32_t>(args[i].view.value), static_cast<std::uint32_t>(args[i].dtype),
                              operands[i].offset, operands[i].zero, operands[i].scale, 0});
  plan_.numbers.insert(plan_.numbers.end(), numbers.begin(), numbers.end());
  plan_.code.insert(plan_.code.end(), code.begin(), code.end());
  plugin::ShapesText shapes;
  String fused;
  if (at_) {
    for (const std::int32_t id : at_->inputs)
      if (id != qir::kAbsent) shapes.input(dtype(id), shape(id).data(), shape(id).size());
    for (const std::int32_t id : at_->outputs)
      if (id != qir::kAbsent) shapes.output(dtype(id), shape(id).data(), shape(id).size());
    step.source = at_->source;
    step.name = name(at_->name), step.op = name(qir::op_name(at_->op));
    for (const qir::Node *node : elements.fused) fused += (fused.empty() ? "" : ", ") + node->name;
  } else {
    step.name = name("output"), step.op = name("Copy");
  }
  step.shapes = name(shapes.view()), step.fused = name(fused);
  plan_.steps.push_back(step);
  return {};
}

// ---- fusion -------------------------------------------------------------------------------------

void Lowering::fuse_with(FusedExpression &elements, bool (*fits)(const void *, const View &), const void *self) {
  // Such a kernel stores what the code gives as an integer of its own result's.
  while (!scales_ && elements.fused.size() < kMostFused) {
    const std::int32_t id = elements.result;
    if (uses_.is_output(id)) return;
    // All of its readers are one node: x * x reads twice.
    const auto users = uses_.users(id);
    if (users.empty() || std::ranges::any_of(users, [&](std::int32_t user) { return user != users[0]; })) return;
    const auto n = index_of(users[0]);
    const qir::Node &node = graph_.nodes[n];
    if (done_[n] || !is_elementwise(node.op) || node.outputs.size() != 1 || shape(node.outputs[0]) != shape(id) ||
        !check_types(node).ok())
      return;
    for (const std::int32_t input : node.inputs)
      if (input != qir::kAbsent && input != id && !is_there(input)) return;
    FusedExpression more = elements;
    if (!element_code(*this, node, more).ok() || more.code.size() > kMaxCode || more.operands.size() + 6 > kMaxOperands)
      return;
    for (std::size_t i = elements.operands.size(); i < more.operands.size(); ++i)
      if (!fits(self, strided::broadcast(more.operands[i].view, shape(id)))) return;
    more.fused.push_back(&node);
    elements = std::move(more);
    done_[n] = true;
    fused_.push_back(n);
  }
}

// ---- nodes --------------------------------------------------------------------------------------

Status Lowering::check_types(const qir::Node &node) const {
  const auto check = [&](std::int32_t id) -> Status {
    if (id == qir::kAbsent) return {};
    const qir::Tensor &t = tensor(id);
    const auto refused = [&](ErrorId error, const String &found, const char *expected) {
      return refuse(error, node, format("tensor '%s': found %s, expected %s", printable(t.name), found, expected));
    };
    if (!is_known(t.shape))
      return refused(ErrorId::backend_limit, shape_text(t.shape.data(), t.shape.size()),
                     "dimensions that are known before the run");
    const bool stored = node.op == qir::Op::QuantizeLinear || node.op == qir::Op::DequantizeLinear;
    if (t.quant && !stored && !computes_quantized(graph_, node))
      return refused(ErrorId::backend_type, "a quantised " + String(dtype_name(t.dtype)),
                     "an operator that moves or computes reals");
    const auto number = number_of(t.dtype);
    if (!number)
      return refused(ErrorId::backend_type, dtype_name(t.dtype), "elements of whole bytes, of no 8-bit float");
    if (*number == Number::Double && !target_.doubles)
      return refused(ErrorId::backend_type, "f64", "a type that the device computes in (it has no cl_khr_fp64)");
    const auto count = element_count(t.shape.data(), t.shape.size());
    if (!count || *count > INT32_MAX) return refused(ErrorId::backend_limit, "2^31 elements or more", "fewer");
    return {};
  };
  for (const std::int32_t id : node.inputs) QR_RETURN_IF_ERROR(check(id));
  for (const std::int32_t id : node.outputs) QR_RETURN_IF_ERROR(check(id));
  const OperatorRow *const row = find_operator(node.op);
  for (const std::int32_t id : node.inputs)  // (stored integers of a quantised tensor are reals)
    if (row && id != qir::kAbsent && !takes(*row, tensor(id).quant ? DType::F32 : dtype(id)))
      return refuse(ErrorId::backend_type, node,
                    format("found %s, expected %s", dtype_name(dtype(id)), types_text(*row)));
  return {};
}

Status Lowering::lower(const qir::Node &node) {
  const OperatorRow *const row = find_operator(node.op);
  if (!row) return refuse(ErrorId::backend_op, node, "found an operator that the backend gpu does not have");
  QR_RETURN_IF_ERROR(check_types(node));
  bool empty = true;
  for (const std::int32_t id : node.outputs) empty = empty && (id == qir::kAbsent || strided::count_of(shape(id)) == 0);
  if (empty) {
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent) (void)result(id);
    return {};
  }
  return apply(row->rule, node);
}

Lowering::Mark Lowering::mark() const noexcept {
  return {plan_.values.size(), plan_.operands.size(), plan_.steps.size(),       plan_.numbers.size(),
          plan_.code.size(),   plan_.names.size(),    constants_.entries.size()};
}

// Constants that a rule looked at are no trace: they are values from the first look on, and go with the refusal.
bool Lowering::wrote_since(const Mark &mark) const {
  return plan_.steps.size() != mark.steps || plan_.operands.size() != mark.operands ||
         plan_.numbers.size() != mark.numbers || plan_.code.size() != mark.code ||
         std::any_of(plan_.values.begin() + static_cast<std::ptrdiff_t>(mark.values), plan_.values.end(),
                     [](const Value &value) { return value.storage != StorageKind::Constant; });
}

void Lowering::rewind(const Mark &mark) {
  for (std::size_t i = views_before_.size(); i-- > 0;)
    views_[index_of(views_before_[i].first)] = std::move(views_before_[i].second);
  for (const std::size_t n : fused_) done_[n] = false;
  std::erase_if(quants_, [&](const auto &one) { return one.first >= static_cast<std::int64_t>(mark.values); });
  std::erase_if(constant_values_, [&](const auto &one) { return one.second >= mark.values; });
  std::erase_if(entries_, [&](const auto &one) { return one.first >= mark.values; });
  std::erase_if(names_, [&](const auto &one) { return one.second >= mark.names; });
  plan_.values.resize(mark.values), plan_.operands.resize(mark.operands), plan_.steps.resize(mark.steps);
  plan_.numbers.resize(mark.numbers), plan_.code.resize(mark.code), plan_.names.resize(mark.names);
  constants_.entries.resize(mark.entries);
}

// By what the node's steps run, and where the nodes went that they took in.
void Lowering::report_kernels(const qir::Node &node, const Mark &mark) {
  if (node.source >= 0 && index_of(node.source) < kernels_.size()) {
    String &text = kernels_[index_of(node.source)];
    for (std::size_t i = mark.steps; i < plan_.steps.size(); ++i) {
      const char *const file = kernel_row(static_cast<Kernel>(plan_.steps[i].kernel)).file;
      if (text.find(file) == String::npos) text += (text.empty() ? "" : ", ") + String(file);
    }
  }
  for (const std::size_t n : fused_)
    if (const std::int32_t source = graph_.nodes[n].source; source >= 0 && source < std::ssize(into_))
      into_[index_of(source)] = node.source;
}

Status Lowering::apply(Rule rule, const qir::Node &node) {
  const Mark before = mark();
  views_before_.clear(), fused_.clear();
  emission_refused_ = false;
  scales_ = scales_stored(graph_, node);
  Status status = rule(*this, node);
  scales_ = false;
  if (status.ok()) {
    report_kernels(node, before);
    return status;
  }
#ifndef NDEBUG
  if (wrote_since(before) && !emission_refused_)
    status = Status::error(ErrorId::internal, format("gpu: the rule of %s wrote into the plan before it refused: %s",
                                                     qir::op_text(node), String(status.message())));
#endif
  rewind(before);
  return status;
}

Status Lowering::run(Vector<Status> &refused) {
  refused_ = &refused;
  kernels_.resize(refused.size());
  into_.assign(refused.size(), qir::kNoSource);
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const qir::Tensor &t = tensor(graph_.inputs[i]);
    const auto bytes = is_known(t.shape) ? packed_size(t.dtype, strided::count_of(t.shape)) : std::nullopt;
    const std::uint32_t value = new_value(bytes.value_or(0));
    plan_.values[value].storage = StorageKind::Input, plan_.values[value].index = static_cast<std::uint32_t>(i);
    if (t.quant) quants_[static_cast<std::int32_t>(value)] = &*t.quant;
    define(graph_.inputs[i], {static_cast<std::int32_t>(value), 0, t.shape, strided::row_major(t.shape)});
  }
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (done_[n]) continue;
    const qir::Node &node = graph_.nodes[n];
    at_ = &node;
    done_[n] = true;
    if (Status status = lower(node); !status.ok()) {
      if (node.source < 0 || index_of(node.source) >= refused.size()) return status;
      Status &told = refused[index_of(node.source)];
      if (told.ok()) told = std::move(status);
      for (const std::int32_t id : node.outputs)
        if (id != qir::kAbsent && views_[index_of(id)].value == strided::kNoValue) (void)result(id);
    }
  }
  at_ = nullptr;
  if (std::ranges::all_of(refused, [](const Status &status) { return status.ok(); })) return finish_outputs();
  return {};
}

// Each output of the graph is a value of its own; its maker writes there where it makes just that.
Status Lowering::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const std::int32_t id = graph_.outputs[i];
    const View v = view(id);
    const std::uint64_t bytes = packed_size(dtype(id), strided::count_of(shape(id))).value_or(0);
    Value &made = plan_.values[index_of(v.value)];
    if (made.storage == StorageKind::Arena && v.offset == 0 && made.bytes == bytes && strided::is_row_major(v)) {
      made.storage = StorageKind::Output, made.index = static_cast<std::uint32_t>(i);
      continue;
    }
    const View own = between(shape(id), dtype(id));
    Value &value = plan_.values[index_of(own.value)];
    value.storage = StorageKind::Output, value.index = static_cast<std::uint32_t>(i);
    if (!number_of(dtype(id)))
      return Status::error(ErrorId::backend_type,
                           format("output '%s': found %s, expected elements of whole bytes, of no 8-bit float",
                                  printable(tensor(id).name), dtype_name(dtype(id))));
    QR_RETURN_IF_ERROR(copy({v, dtype(id)}, {own, dtype(id)}));
  }
  return {};
}

void Lowering::report_paths(const Vector<String> &names, const Vector<NodePathRow> &late) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    NodePathRow row;
    if (late[i].path != QR_PLUGIN_PATH_UNKNOWN)
      row = {late[i].path,
             name(late[i].path == QR_PLUGIN_PATH_NATIVE ? "data-dependent shape: planned when they are known"
                                                        : "data-dependent shape: by the host")};
    else if (!kernels_[i].empty()) row = {QR_PLUGIN_PATH_NATIVE, name(kernels_[i])};
    else if (into_[i] >= 0) row = {QR_PLUGIN_PATH_NONE, name("fused into " + names[index_of(into_[i])])};
    else row = {QR_PLUGIN_PATH_NONE, name("no work: a view, or folded into another node")};
    plan_.paths.push_back(row);
  }
}

}  // namespace quarry::gpu
