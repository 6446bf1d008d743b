// SPDX-License-Identifier: Apache-2.0
#include "generate/model/decoder_inputs.h"

#include "base/side_edge.h"

namespace quarry::generate {

using side::from_library;

Status not_a_decoder(const String &what, const char *hint) {
  return Status::error(ErrorId::not_a_decoder, format("qr_generator_create: %s", what), hint);
}

Status DecoderInputs::check_dims(const qr_tensor_info &info, std::string_view name, Value value) {
  if (info.dtype != QR_DTYPE_I64 && info.dtype != QR_DTYPE_I32)
    return not_a_decoder(
        format("input '%s': found %s, expected i64 or i32", printable(name), qr_dtype_name(info.dtype)),
        "export the model with integers there");
  const bool of_tokens = value == Value::Token || value == Value::Position || value == Value::Ones;
  for (std::uint32_t axis = 0; axis < info.rank; ++axis) {
    const std::int64_t dim = info.dims[axis];
    const bool last = axis + 1 == info.rank && of_tokens;
    if (dim == 1 || dim == QR_DIM_UNKNOWN) {
      if (last && dim == 1 && value == Value::Token) most_ = 1;
      continue;
    }
    return not_a_decoder(
        format("input '%s': found %lld on axis %u, expected %s", printable(name), dim, axis,
               "1, or what is left to the runs"),
        last ? "leave the dimension to the runs: bind no number to it (option shape)" : "a generator has a batch of 1");
  }
  return {};
}

Status DecoderInputs::add(const qr_tensor_info &info, std::string_view name, const Names &names) {
  const std::string_view role = names.role_of(name);
  const struct {
    std::string_view name;
    std::size_t rank;
    Value value;
  } rows[] = {
#define QR_ROLE(role, name, rank, value) {name, rank, Value::value},
#include "generate/model/roles.inc"
#undef QR_ROLE
  };
  for (const auto &row : rows) {
    if (row.name != role) continue;
    if (info.rank > row.rank || (info.rank == 0 && row.value == Value::Token))
      return not_a_decoder(
          format("input '%s': found rank %u, expected at most %zu", printable(name), info.rank, row.rank));
    QR_RETURN_IF_ERROR(check_dims(info, name, row.value));
    counts_cache_ |= row.value == Value::Last;
    inputs_.push_back({row.value, info.dtype, info.rank, {}, {}});
    return {};
  }
  // (The cache of a session that does not keep it is the commonest.)
  return not_a_decoder(format("found the input '%s', %s of rank %u, expected one of those that quarry/generate.h lists",
                              printable(name), qr_dtype_name(info.dtype), info.rank));
}

Status DecoderInputs::read(const qr::Session &session, const Names &names) {
  const std::uint64_t count = qr_session_input_count(session.get());
  bool has_tokens = false;
  Vector<String> found;
  for (std::uint64_t i = 0; i < count; ++i) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    QR_RETURN_IF_ERROR(from_library(qr_session_input(session.get(), i, &info)));
    const std::string_view name(info.name.data, static_cast<std::size_t>(info.name.size));
    QR_RETURN_IF_ERROR(add(info, name, names));
    has_tokens |= inputs_.back().value == Value::Token;
    found.emplace_back(name);
  }
  if (!has_tokens)
    return not_a_decoder(format("found no input 'input_ids' among the %llu, expected one", count),
                         "say what it is called: input_ids=NAME in qr_generator_options.names");
  tensors_.resize(inputs_.size());
  return {};
}

std::size_t DecoderInputs::count_of(Value value, std::size_t fresh, std::uint64_t past) noexcept {
  switch (value) {
    case Value::Token:
    case Value::Position: return fresh;
    case Value::Ones: return static_cast<std::size_t>(past) + fresh;
    case Value::Last:
    case Value::Total:
    case Value::One: return 1;
  }
  return 1;
}

const std::vector<qr::Tensor> &DecoderInputs::fill(std::span<const std::int64_t> tokens, std::uint64_t before_these,
                                                   std::uint64_t dropped) {
  const auto before = static_cast<std::int64_t>(before_these), past = before - static_cast<std::int64_t>(dropped);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input &input = inputs_[i];
    const std::size_t count = count_of(input.value, tokens.size(), static_cast<std::uint64_t>(past));
    const auto total = past + static_cast<std::int64_t>(tokens.size());
    const auto value_at = [&](std::size_t at) -> std::int64_t {
      switch (input.value) {
        case Value::Token: return tokens[at];
        case Value::Position: return before + static_cast<std::int64_t>(at);
        case Value::Last: return total - 1;
        case Value::Total: return total;
        case Value::Ones:
        case Value::One: break;
      }
      return 1;
    };
    std::int64_t dims[2] = {1, 1};
    if (input.rank > 0) dims[input.rank - 1] = static_cast<std::int64_t>(count);
    const qr::Shape shape(dims, input.rank);
    if (input.dtype == QR_DTYPE_I64) {
      input.wide.resize(count);
      for (std::size_t at = 0; at < count; ++at) input.wide[at] = value_at(at);
      tensors_[i] = qr::Tensor::of(input.wide, shape);
    } else {
      input.narrow.resize(count);
      for (std::size_t at = 0; at < count; ++at) input.narrow[at] = static_cast<std::int32_t>(value_at(at));
      tensors_[i] = qr::Tensor::of(input.narrow, shape);
    }
  }
  return tensors_;
}

}  // namespace quarry::generate
