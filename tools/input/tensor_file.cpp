// SPDX-License-Identifier: Apache-2.0
#include "tools/input/tensor_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "tools/console/command.h"
#include "tools/console/read_file.h"

namespace tools {
namespace {

struct NpyType {
  const char *descr;
  qr_dtype dtype;
};
// NumPy has no name for the others: they are read and written as unsigned integers of their size.
constexpr NpyType kNpyTypes[] = {
    {"<f4", QR_DTYPE_F32}, {"<f8", QR_DTYPE_F64}, {"<f2", QR_DTYPE_F16}, {"|u1", QR_DTYPE_U8},
    {"|i1", QR_DTYPE_I8},  {"<u2", QR_DTYPE_U16}, {"<i2", QR_DTYPE_I16}, {"<u4", QR_DTYPE_U32},
    {"<i4", QR_DTYPE_I32}, {"<u8", QR_DTYPE_U64}, {"<i8", QR_DTYPE_I64}, {"|b1", QR_DTYPE_BOOL},
};

// A float of `exponent` and `mantissa` bits. `finite`: the all-ones exponent holds numbers, only the all-ones code (fn)
// or minus zero (fnuz) is NaN.
double decode_small(uint32_t bits, int exponent, int mantissa, int bias, bool fn, bool fnuz) {
  const uint32_t sign = bits >> (exponent + mantissa) & 1;
  const uint32_t e = bits >> mantissa & ((1u << exponent) - 1), m = bits & ((1u << mantissa) - 1);
  const uint32_t e_max = (1u << exponent) - 1;
  if (fnuz && sign && e == 0 && m == 0) return std::nan("");
  if (fn && e == e_max && m == (1u << mantissa) - 1 && mantissa > 1) return std::nan("");
  if (!fn && !fnuz && e == e_max) return m ? std::nan("") : sign ? -INFINITY : INFINITY;
  const double value = e == 0 ? std::ldexp(m, 1 - bias - mantissa)
                              : std::ldexp((1u << mantissa) + m, static_cast<int>(e) - bias - mantissa);
  return sign ? -value : value;
}

double decode(qr_dtype dtype, const uint8_t *data, int64_t i) {
  const auto load = [&](auto tag) {
    decltype(tag) value;
    std::memcpy(&value, data + static_cast<size_t>(i) * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case QR_DTYPE_F32: return load(float{});
    case QR_DTYPE_F64: return load(double{});
    case QR_DTYPE_U8:
    case QR_DTYPE_BOOL: return load(uint8_t{});
    case QR_DTYPE_I8: return load(int8_t{});
    case QR_DTYPE_U16: return load(uint16_t{});
    case QR_DTYPE_I16: return load(int16_t{});
    case QR_DTYPE_U32: return load(uint32_t{});
    case QR_DTYPE_I32: return load(int32_t{});
    case QR_DTYPE_U64: return static_cast<double>(load(uint64_t{}));
    case QR_DTYPE_I64: return static_cast<double>(load(int64_t{}));
    case QR_DTYPE_F16: return decode_small(load(uint16_t{}), 5, 10, 15, false, false);
    case QR_DTYPE_BF16: return decode_small(load(uint16_t{}), 8, 7, 127, false, false);
    case QR_DTYPE_F8E4M3FN: return decode_small(load(uint8_t{}), 4, 3, 7, true, false);
    case QR_DTYPE_F8E4M3FNUZ: return decode_small(load(uint8_t{}), 4, 3, 8, false, true);
    case QR_DTYPE_F8E5M2: return decode_small(load(uint8_t{}), 5, 2, 15, false, false);
    case QR_DTYPE_F8E5M2FNUZ: return decode_small(load(uint8_t{}), 5, 2, 16, false, true);
    case QR_DTYPE_F8E8M0: {
      const uint8_t e = load(uint8_t{});
      return e == 255 ? std::nan("") : std::ldexp(1.0, e - 127);
    }
    default: break;
  }
  const uint32_t bits = qr_dtype_bits(dtype);
  const uint32_t code =
      data[static_cast<size_t>(i) * bits / 8] >> (static_cast<size_t>(i) * bits % 8) & ((1u << bits) - 1);
  if (dtype == QR_DTYPE_F4E2M1) return decode_small(code, 2, 1, 1, true, false);
  const bool is_signed = dtype == QR_DTYPE_I4 || dtype == QR_DTYPE_I2;
  return is_signed && code >> (bits - 1) ? static_cast<double>(code) - (1 << bits) : code;
}

// The nearest half float, ties to even. (_Float16 would do it; clang 14 has none on x86.)
uint16_t half_code(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = size == 0 ? -14 : std::max(exponent - 1, -14);  // below 2^-14 the spacing is that of 2^-14
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps));
}

}  // namespace

int64_t element_count(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

uint64_t packed_bytes(qr_dtype dtype, const std::vector<int64_t> &dims) {
  const int64_t count = element_count(dims);
  uint64_t bits = 0;
  if (count < 0) return 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), qr_dtype_bits(dtype), &bits)) return UINT64_MAX / 8;
  return bits / 8 + (bits % 8 != 0);
}

int int_size(const std::vector<uint8_t> &file, const std::string &path) {
  if (file.size() <= INT_MAX) return static_cast<int>(file.size());
  throw UsageError("'" + path + "': found " + std::to_string(file.size()) + " bytes, expected at most 2 GiB");
}

namespace {

// Elements in Fortran's order, the first dimension the fastest, in the order of C.
std::vector<uint8_t> with_last_dim_fastest(const std::vector<uint8_t> &from, const std::vector<int64_t> &dims,
                                           size_t item) {
  std::vector<uint8_t> to(from.size());
  std::vector<size_t> steps, index(dims.size(), 0);
  size_t step = item;
  for (const int64_t extent : dims) steps.push_back(step), step *= static_cast<size_t>(extent);
  size_t source = 0;
  for (size_t at = 0; at < to.size(); at += item) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), item, to.begin() + static_cast<std::ptrdiff_t>(at));
    for (size_t axis = dims.size(); axis-- > 0;) {
      source += steps[axis];
      if (++index[axis] < static_cast<size_t>(dims[axis])) break;
      source -= steps[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return to;
}

}  // namespace

TensorData read_npy(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  const auto bad = [&](const std::string &why) {
    return UsageError("'" + path + "' is no .npy file that Quarry reads: " + why);
  };
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0)
    throw bad("it does not begin with NumPy's magic");
  const size_t prefix = file[6] == 1 ? 10 : 12;
  if (file.size() < prefix) throw bad("it is cut off inside its header");
  size_t header_size = file[8] | file[9] << 8;
  if (prefix == 12) header_size |= static_cast<size_t>(file[10]) << 16 | static_cast<size_t>(file[11]) << 24;
  if (header_size > file.size() - prefix) throw bad("it is cut off inside its header");
  const std::string header(reinterpret_cast<const char *>(file.data()) + prefix, header_size);
  const auto value_of = [&](const char *key) {
    const size_t at = header.find(std::string("'") + key + "'");
    const size_t colon = at == std::string::npos ? at : header.find(':', at);
    if (colon == std::string::npos) throw bad(std::string("its header has no '") + key + "'");
    const size_t begin = header.find_first_not_of(' ', colon + 1);
    return begin == std::string::npos ? std::string() : header.substr(begin);
  };
  TensorData out;
  std::string descr = value_of("descr");
  const std::string written = descr.substr(0, descr.find(','));
  const bool big_endian = descr.size() > 1 && descr[1] == '>';
  if (big_endian) descr[1] = '<';
  for (const NpyType &type : kNpyTypes)
    if (!descr.empty() && descr.compare(1, std::strlen(type.descr), type.descr) == 0) out.dtype = type.dtype;
  if (out.dtype == QR_DTYPE_UNKNOWN) throw bad("element type " + written + " has no counterpart");
  const std::string shape = value_of("shape");
  for (size_t at = 1; at < shape.size() && shape[at] != ')';) {
    char *end = nullptr;
    const long long extent = std::strtoll(shape.c_str() + at, &end, 10);
    if (end == shape.c_str() + at) break;
    out.dims.push_back(extent);
    at = static_cast<size_t>(end - shape.c_str());
    while (at < shape.size() && (shape[at] == ',' || shape[at] == ' ')) ++at;
  }
  if (out.dims.size() > QR_MAX_RANK)
    throw bad("it has " + std::to_string(out.dims.size()) + " dimensions, at most 8 are allowed");
  const uint64_t expected = packed_bytes(out.dtype, out.dims), found = file.size() - prefix - header_size;
  if (element_count(out.dims) < 0 || found != expected)
    throw bad((found < expected ? "it is cut off: shape " : "shape ") + shape_text(out.dims) + " needs " +
              std::to_string(expected) + " bytes, found " + std::to_string(found));
  out.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(prefix + header_size), file.end());
  const size_t item = qr_dtype_bits(out.dtype) / 8;
  if (big_endian)
    for (size_t at = 0; at < out.bytes.size(); at += item)
      std::reverse(out.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   out.bytes.begin() + static_cast<std::ptrdiff_t>(at + item));
  if (value_of("fortran_order").compare(0, 4, "True") == 0)
    out.bytes = with_last_dim_fastest(out.bytes, out.dims, item);
  return out;
}

void write_npy(const std::string &path, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data,
               uint64_t size_bytes) {
  const char *descr = nullptr;
  for (const NpyType &type : kNpyTypes)
    if (type.dtype == dtype) descr = type.descr;
  std::vector<int64_t> stored = dims;
  if (!descr) {
    descr = qr_dtype_bits(dtype) == 16 ? "<u2" : "|u1";
    if (qr_dtype_bits(dtype) < 8) stored = {static_cast<int64_t>(size_bytes)};  // packed bytes have no shape in NumPy
  }
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : stored) header += std::to_string(dim) + ",";
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(static_cast<const char *>(data), size_bytes);
  write_bytes(path, file);
}

TensorData read_raw(const std::string &path, qr_dtype dtype, const std::vector<int64_t> &dims) {
  TensorData out;
  out.dtype = dtype;
  out.dims = dims;
  out.bytes = read_file(path);
  const uint64_t expected = packed_bytes(dtype, dims);
  if (element_count(dims) < 0 || out.bytes.size() != expected)
    throw UsageError("'" + path + "': found " + std::to_string(out.bytes.size()) + " bytes, the input wants " +
                     qr_dtype_name(dtype) + shape_text(dims) + " = " + std::to_string(expected) + " bytes");
  return out;
}

std::vector<double> to_doubles(qr_dtype dtype, const void *data, int64_t count) {
  auto out = with_room(8 * static_cast<uint64_t>(count), "the values of a tensor",
                       [&] { return std::vector<double>(static_cast<size_t>(count)); });
  for (int64_t i = 0; i < count; ++i)
    out[static_cast<size_t>(i)] = decode(dtype, static_cast<const uint8_t *>(data), i);
  return out;
}

std::vector<uint8_t> from_doubles(qr_dtype dtype, const std::vector<double> &values) {
  std::vector<uint8_t> out;
  const auto store = [&](auto tag) {
    using T = decltype(tag);
    out.resize(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      T element;
      if constexpr (std::is_integral_v<T>) {
        const double low = static_cast<double>(std::numeric_limits<T>::min()),
                     high = static_cast<double>(std::numeric_limits<T>::max());
        element = values[i] <= low    ? std::numeric_limits<T>::min()
                  : values[i] >= high ? std::numeric_limits<T>::max()
                                      : static_cast<T>(std::nearbyint(values[i]));
      } else {
        element = static_cast<T>(values[i]);
      }
      std::memcpy(out.data() + i * sizeof(T), &element, sizeof element);
    }
  };
  switch (dtype) {
    case QR_DTYPE_F32: store(float{}); break;
    case QR_DTYPE_F64: store(double{}); break;
    case QR_DTYPE_U8: store(uint8_t{}); break;
    case QR_DTYPE_I8: store(int8_t{}); break;
    case QR_DTYPE_U16: store(uint16_t{}); break;
    case QR_DTYPE_I16: store(int16_t{}); break;
    case QR_DTYPE_U32: store(uint32_t{}); break;
    case QR_DTYPE_I32: store(int32_t{}); break;
    case QR_DTYPE_U64: store(uint64_t{}); break;
    case QR_DTYPE_I64: store(int64_t{}); break;
    case QR_DTYPE_F16:
    case QR_DTYPE_BF16:
      out.resize(values.size() * 2);
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t code;
        if (dtype == QR_DTYPE_F16) {
          code = half_code(values[i]);
        } else {
          const float single = static_cast<float>(values[i]);
          uint32_t bits;
          std::memcpy(&bits, &single, 4);
          code = std::isnan(single) ? 0x7fc0 : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
        std::memcpy(out.data() + i * 2, &code, 2);
      }
      break;
    case QR_DTYPE_BOOL:
      out.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) out[i] = values[i] != 0;
      break;
    default:
      throw UsageError(std::string("no conversion of numbers to ") + qr_dtype_name(dtype) +
                       ": give the data as .npy, .pb or raw bytes");
  }
  return out;
}

}  // namespace tools
