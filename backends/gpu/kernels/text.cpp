// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/kernels/text.h"

#include <algorithm>
#include <bit>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/kernels/params.h"
#include "backends/gpu/text_of_kernels.h"

namespace quarry::gpu {

namespace {

// Functions as functions.inc writes them; t makes a number of the element's type.
constexpr char kExpressions[] = ""
#define QR_EXPRESSION(op, p_name, p_value, q_name, q_value, range, types, expression) \
  "#define QR_" #op "(t, a, p, q) (" #expression ")\n"
#include "graph/ops/functions.inc"
    ;

const char *spelled(Number number) {
  constexpr const char *kNames[] = {"float", "double", "int", "uint", "long", "ulong", "int"};
  return kNames[index_of(number)];
}

struct Storage {
  const char *type, *load, *store;
  const char *vector = "";  // COLS elements at once, of reals
};
// $p: the pointer with the offset, $v: the value.
Storage storage_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {"half", "vload_half(0, $p)", "vstore_half_rte($v, 0, $p)", "QR_JOIN(vload_half, COLS)(0, $p)"};
    case DType::BF16:
      return {"ushort", "qr_from_bf16(*($p))", "*($p) = qr_to_bf16($v)",
              "QR_JOIN(as_float, COLS)(QR_JOIN(convert_uint, COLS)(QR_JOIN(vload, COLS)(0, $p)) << 16)"};
    case DType::F64: return {"double", "*($p)", "*($p) = $v", "QR_JOIN(vload, COLS)(0, $p)"};
    case DType::I8: return {"char", "(int)*($p)", "*($p) = (char)($v)"};
    case DType::I16: return {"short", "(int)*($p)", "*($p) = (short)($v)"};
    case DType::I32: return {"int", "*($p)", "*($p) = $v"};
    case DType::I64: return {"long", "*($p)", "*($p) = $v"};
    case DType::U8: return {"uchar", "(uint)*($p)", "*($p) = (uchar)($v)"};
    case DType::U16: return {"ushort", "(uint)*($p)", "*($p) = (ushort)($v)"};
    case DType::U32: return {"uint", "*($p)", "*($p) = $v"};
    case DType::U64: return {"ulong", "*($p)", "*($p) = $v"};
    case DType::Bool: return {"uchar", "(int)(*($p) != 0)", "*($p) = (uchar)(($v) != 0)"};
    default: return {"float", "*($p)", "*($p) = $v", "QR_JOIN(vload, COLS)(0, $p)"};
  }
}

String replaced(std::string_view pattern, char what, std::string_view with) {
  String out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '$' && i + 1 < pattern.size() && pattern[i + 1] == what) out += with, ++i;
    else out += pattern[i];
  }
  return out;
}

String literal(Number number, std::uint64_t bits) {
  switch (number) {
    case Number::Float: return format("as_float(0x%08xu)", static_cast<std::uint32_t>(bits));
    case Number::Double: return format("as_double(0x%016llxul)", bits);
    case Number::Int:
    case Number::Truth: return format("as_int(0x%08xu)", static_cast<std::uint32_t>(bits));
    case Number::Uint: return format("0x%08xu", static_cast<std::uint32_t>(bits));
    case Number::Long: return format("as_long(0x%016llxul)", bits);
    default: return format("0x%016llxul", bits);
  }
}

// Reals become integers towards zero, as 64 bits that saturate (NaN: 0) and then lose their upper ones.
String conversion(Number from, Number to, const String &a) {
  if (from == to) return a;
  if (to == Number::Truth) return a + " != 0";
  if (!is_real(from) || is_real(to)) return format("(%s)%s", spelled(to), a);
  if (to == Number::Ulong) return format("qr_to_ulong%s(%s)", from == Number::Double ? "_double" : "", a);
  return format("(%s)qr_to_long%s(%s)", spelled(to), from == Number::Double ? "_double" : "", a);
}

// Of integers of at most 16 bits.
int highest_of(DType dtype) {
  const bool has_sign = *number_of(dtype) == Number::Int;
  return (1 << (dtype_bits(dtype) - (has_sign ? 1 : 0))) - 1;
}
int lowest_of(DType dtype) { return *number_of(dtype) == Number::Int ? -highest_of(dtype) - 1 : 0; }

class Macros {
 public:
  void define(const String &name, const String &body) {
    defines_ += "#define " + name + " " + body + "\n";
    undefines_ += "#undef " + name.substr(0, name.find('(')) + "\n";
  }
  String around(std::string_view text) const { return defines_ + String(text) + undefines_; }

 private:
  String defines_, undefines_;
};

String coordinate(const KernelRow &row, const Nest &nest, std::uint32_t d) {
  const std::uint32_t outer = nest.rank - row.inner;
  return d < outer ? format("c%u", d) : format("y%u", d - outer);
}

// Without parentheses where it can be: names of types are made with it.
String spelled_number(std::int32_t number) { return number < 0 ? format("(%d)", number) : format("%d", number); }

void define_fields(const KernelRow &row, std::span<const std::int32_t> fields, Macros &macros) {
  std::size_t at = 0;
  for (std::string_view rest = row.fields; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    const std::size_t star = word.find('*');
    const String name(word.substr(0, star));
    if (star == word.npos) macros.define(name, spelled_number(fields[at++]));
    else
      for (int i = 0; i < word[star + 1] - '0'; ++i)
        macros.define(format("%s_%d", name, i), spelled_number(fields[at++]));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
}

void define_operands(const Form &form, const Bounds &bounds, const KernelRow &row, Macros &macros) {
  String arguments;
  const std::size_t last = form.operands.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    const StepOperand &operand = form.operands[i];
    const Storage storage = storage_of(operand.dtype);
    const String name = i == last ? String("Y") : format("%zu", i);
    if (i < 2 && bounds.images[i].width != 0)
      arguments += format("%s__read_only image2d_t p%s", i == 0 ? "" : ", ", name);
    else arguments += format("%s__global %s%s *p%s", i == 0 ? "" : ", ", i == last ? "" : "const ", storage.type, name);
    const String pointer =
        operand.offset == 0 ? format("p%s + (i)", name) : format("p%s + (%d + (i))", name, operand.offset);
    macros.define("T" + name, spelled(*number_of(operand)));
    if (operand.scale != 0) {
      const String scale = literal(Number::Float, std::bit_cast<std::uint32_t>(operand.scale));
      if (i < last)
        macros.define("LOAD" + name + "(i)", format("((float)((int)(%s) - (%d)) * %s)",
                                                    replaced(storage.load, 'p', pointer), operand.zero, scale));
      else
        macros.define("STORE(i, v)", replaced(replaced(storage.store, 'p', pointer), 'v',
                                              format("(qr_stored(v, %s, %d, %d) + (%d))", scale,
                                                     lowest_of(operand.dtype) - operand.zero,
                                                     highest_of(operand.dtype) - operand.zero, operand.zero)));
    } else if (i < last) {
      if (*storage.vector) macros.define("VLOAD" + name + "(i)", replaced(storage.vector, 'p', pointer));
      macros.define("LOAD" + name + "(i)", format("(%s)", replaced(storage.load, 'p', pointer)));
      if (operand.dtype == DType::F16) {
        macros.define("HALF" + name + "(i)", format("(*(%s))", pointer));
        macros.define("VHALF" + name + "(i)", format("QR_JOIN(vload, COLS)(0, %s)", pointer));
      }
      if (dtype_bits(operand.dtype) == 8) {
        // Four at once; as one number where they lie as one would.
        macros.define("FOUR" + name + "(i)", format("as_uint(vload4(0, %s))", pointer));
        macros.define("WORD" + name + "(i)", format("(*(const __global uint *)(%s))", pointer));
      }
    } else {
      macros.define("PLACEY(i)", "(" + pointer + ")");
      macros.define("STORE(i, v)", replaced(replaced(storage.store, 'p', pointer), 'v', "(v)"));
    }
    String at;
    for (std::uint32_t d = 0; d < form.nest.rank; ++d) {
      const std::int32_t stride = form.nest.strides[i][d];
      if (stride == 0 || form.nest.dims[d] == 1) continue;
      const String c = coordinate(row, form.nest, d);
      at += (at.empty() ? "" : " + ") + (stride == 1 ? c : format("%s * (%d)", c, stride));
    }
    macros.define("AT" + name, at.empty() ? String("0") : "(" + at + ")");
  }
  const bool checks = checks_indices(form);
  if (checks) arguments += ", __global long *faults";
  macros.define("REPORT_INDEX(i)", checks ? "{ faults[0] = 1; faults[1] = (i); }" : "{}");
  macros.define("ARGUMENTS", arguments);
}

void define_coordinates(const Form &form, const KernelRow &row, Macros &macros) {
  const std::uint32_t outer = form.nest.rank - row.inner;
  // The outermost takes what is left; unused ones cost nothing.
  String text;
  std::int64_t count = 1;
  for (std::uint32_t d = outer; d-- > 0;) {
    if (d == 0) text += "const int c0 = (int)g; ";
    else text += format("const int c%u = (int)(g %% %du); g /= %du; ", d, form.nest.dims[d], form.nest.dims[d]);
    count *= form.nest.dims[d];
  }
  macros.define("COORDINATES", text);
  macros.define("COUNT", format("%lldu", count));
  for (std::uint32_t d = 0; d < form.nest.rank; ++d)
    macros.define(format("DIM_%u", d), format("%d", form.nest.dims[d]));
  macros.define("RANK", format("%u", form.nest.rank));
  String all;
  for (std::uint32_t d = 0; d < outer; ++d) all += format("%sc%u", d == 0 ? "" : ", ", d);
  macros.define("ALL_COORDINATES", all.empty() ? String("0") : all);
  if (row.inner >= 1) macros.define("INNER_LAST", format("%d", form.nest.dims[form.nest.rank - 1]));
  if (row.inner == 2) macros.define("INNER_FIRST", format("%d", form.nest.dims[form.nest.rank - 2]));
}

}  // namespace

bool checks_indices(const Form &form) {
  switch (form.kernel) {
    case Kernel::Gather: return read_params<GatherParams>(form).CHECKED != 0;
    case Kernel::GatherND: return read_params<GatherNDParams>(form).CHECKED != 0;
    case Kernel::Scatter: return read_params<ScatterParams>(form).CHECKED != 0;
    case Kernel::ScatterWinner: return read_params<ScatterWinnerParams>(form).CHECKED != 0;
    default: return false;
  }
}

namespace {

// The ends of the type of operand 0, and what rounds a real to it.
void define_type(const StepOperand &operand, Macros &macros) {
  const Number number = *number_of(operand);
  const unsigned bits = dtype_bits(operand.dtype);
  if (is_real(number)) {
    macros.define("LOWEST", "(-QR_INFINITY)");
    macros.define("HIGHEST", "QR_INFINITY");
    macros.define("ROUNDED(v)", "(v)");
    macros.define("TRUNCATED(v)", "(v)");
    macros.define("ROOT(v)", "sqrt(v)");
    return;
  }
  const bool has_sign = number == Number::Int || number == Number::Long;
  const std::uint64_t high = number == Number::Truth ? 1 : ~std::uint64_t{0} >> (64 - bits + (has_sign ? 1 : 0));
  macros.define("HIGHEST", literal(number, high));
  macros.define("LOWEST", literal(number, has_sign ? ~high : 0));
  // Of weights and sums that may lie a little outside.
  macros.define("ROUNDED(v)", format("(%s)clamp(rint(v), %.9ef, %.9ef)", spelled(number),
                                     has_sign ? -static_cast<double>(high) - 1 : 0.0, static_cast<double>(high)));
  macros.define("TRUNCATED(v)", "ROUNDED(trunc(v))");
  macros.define("ROOT(v)", format("(%s)sqrt((float)(v))", spelled(number)));
}

// What kernels compute is of their first operand's type, but for indices and sums of integers.
Number value_number(const Form &form) {
  switch (form.kernel) {
    case Kernel::ArgReduce: return Number::Long;
    case Kernel::ConvDot:
    case Kernel::MatMulDot: return Number::Int;
    case Kernel::ConvInteger: return read_params<ConvIntegerParams>(form).WIDE ? Number::Long : Number::Int;
    case Kernel::ConvTransposeInteger:
      return read_params<ConvTransposeIntegerParams>(form).WIDE ? Number::Long : Number::Int;
    case Kernel::MatMulInteger: return read_params<MatMulIntegerParams>(form).WIDE ? Number::Long : Number::Int;
    default: return *number_of(form.operands[0]);
  }
}

// The code as statements, then the store of its last register.
String finish(const Form &form, const KernelRow &row) {
  String text;
  Number numbers[kMaxOperands + kMaxCode];
  std::size_t registers = 0;
  if (row.value) {
    numbers[registers++] = value_number(form);
    text += format("const %s r0 = value; ", spelled(numbers[0]));
  }
  for (std::size_t i = row.base; i + 1 < form.operands.size(); ++i) {
    numbers[registers] = *number_of(form.operands[i]);
    text += format("const %s r%zu = LOAD%zu(AT%zu); ", spelled(numbers[registers]), registers, i, i);
    ++registers;
  }
  for (const Instruction &one : form.code) {
    const ElementRow &element = element_row(static_cast<Element>(one.element));
    const auto named = static_cast<Number>(one.number);
    const Number from = element.operands > 0 ? numbers[one.a] : named;
    const Number to = element.result == ElementRow::Result::Same    ? from
                      : element.result == ElementRow::Result::Truth ? Number::Truth
                                                                    : named;
    const String a = format("r%u", one.a);
    String expression;
    switch (static_cast<Element>(one.element)) {
      case Element::To: expression = conversion(from, to, a); break;
      case Element::Index:
        expression = format("(%s)%s", spelled(to), coordinate(row, form.nest, static_cast<std::uint32_t>(one.p)));
        break;
      default: {
        expression = is_real(from) && *element.reals ? element.reals : element.integers;
        expression = replaced(expression, 't', spelled(from));
        expression = replaced(expression, 'a', a);
        expression = replaced(expression, 'b', format("r%u", one.b));
        expression = replaced(expression, 'c', format("r%u", one.c));
        const Number constants = element.operands > 0 ? from : to;
        expression = replaced(expression, 'p', literal(constants, one.p));
        expression = replaced(expression, 'q', literal(constants, one.q));
      }
    }
    numbers[registers] = to;
    text += format("const %s r%zu = %s; ", spelled(to), registers, expression);
    ++registers;
  }
  const Number result = *number_of(form.operands.back()), have = numbers[registers - 1];
  const String last = format("r%zu", registers - 1);
  return text + "STORE(ATY, " + conversion(have, result, last) + ")";
}

}  // namespace

std::uint32_t ProgramText::kernel(const Form &form) {
  const KernelRow &row = kernel_row(form.kernel);
  Macros macros;
  Bounds bounds;
  // A size that the compiler knows: some make the kernel once more for each that it does not.
  if (find_bounds(form, bounds).ok())
    macros.define("GROUP",
                  format("__attribute__((reqd_work_group_size(%d, %d, %d)))", static_cast<int>(bounds.local[0]),
                         static_cast<int>(bounds.local[1]), static_cast<int>(bounds.local[2])));
  else macros.define("GROUP", "");
  define_fields(row, form.fields, macros);
  define_operands(form, bounds, row, macros);
  define_coordinates(form, row, macros);
  macros.define("FINISH", row.value || row.base == 0 ? finish(form, row) : String());
  define_type(form.operands[0], macros);
  if (form.kernel == Kernel::MatMul || form.kernel == Kernel::MatMulInteger || form.kernel == Kernel::ConvInteger)
    macros.define("TILE", format("%d", static_cast<int>(kTile)));
  if (form.kernel == Kernel::MatMulDot || form.kernel == Kernel::ConvDot)
    macros.define("SIGNED(four)", form.operands[0].dtype == DType::I8 ? "(four)" : "((four) ^ 0x80808080u)");
  if (form.kernel == Kernel::MatMulTile) macros.define("ROW_TEXELS", format("%d", static_cast<int>(kRowTexels)));
  for (const StepOperand &operand : form.operands) doubles_ |= operand.dtype == DType::F64;
  String text = macros.around(row.text);
  const auto [at, added] = known_.emplace(std::move(text), count_);
  if (added) {
    // FN(name): a function of the kernel's own.
    kernels_ += format("#define KERNEL k%u\n#define FN(name) k%u_##name\n", count_, count_) + at->first +
                "#undef KERNEL\n#undef FN\n";
    ++count_;
  }
  return at->second;
}

String ProgramText::text() const {
  return String(doubles_ ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define QR_DOUBLES\n" : "") + kPrelude +
         kExpressions + kernels_;
}

}  // namespace quarry::gpu
