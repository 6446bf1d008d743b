// SPDX-License-Identifier: Apache-2.0
// Recurrent networks.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

// Recurrent operators had a flag whether the whole sequence is wanted; the outputs say that.
Status recurrent(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made,
                      node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs(), {"output_sequence"}));
  return node.finish(std::move(made));
}

// Exporters that write every default give RNN two functions, where a node of one direction has one; ONNX Runtime takes
// the first too.
Status rnn(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::RNN, node.inputs()));
  if (const Vector<String> *const names = made.get_strings("activations");
      names && names->size() == 2 && made.get_string("direction", "forward") != "bidirectional")
    made.set("activations", Vector<String>{(*names)[0]});
  return node.finish(std::move(made));
}

namespace {

// The weights of a direction are [inputs, 4 * hidden]; their scale and zero point one number, or one for each column.
Result<std::int32_t> real_weights(Rewriter &node, std::size_t weights, std::size_t scale, std::size_t zero_point,
                                  const char *name) {
  if (!node.builder.is_constant(node.in(weights)) || !node.has(scale))
    return node.error(ErrorId::onnx_attribute, "its input %zu is no constant with a scale", weights);
  const auto column = [&](std::int32_t id, const char *what) -> Result<std::int32_t> {
    const qir::Shape &given = node.builder.tensor(id).shape;
    const std::int64_t directions = node.tensor(weights).shape[0];
    const std::int64_t shape[] = {directions, 1, given.size() == 2 ? given[1] : 1};
    return node.step(Op::Reshape, {id, node.ints(String(name) + what + "/shape", shape)}, String(name) + what);
  };
  QR_ASSIGN_OR_RETURN(std::int32_t id, to_real(node, node.in(weights), String(name) + "/integers"));
  if (node.has(zero_point)) {
    QR_ASSIGN_OR_RETURN(std::int32_t zero, to_real(node, node.in(zero_point), String(name) + "/zero"));
    QR_ASSIGN_OR_RETURN(zero, column(zero, "/zero_point"));
    QR_ASSIGN_OR_RETURN(id, node.step(Op::Sub, {id, zero}, String(name) + "/centred"));
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t factor, column(node.in(scale), "/scale"));
  QR_ASSIGN_OR_RETURN(id, node.step(Op::Mul, {id, factor}, String(name) + "/real"));
  qir::Node turned = node.make(Op::Transpose, {id}, name);
  turned.set("perm", Vector<std::int64_t>{0, 2, 1});
  return node.step(std::move(turned));
}

}  // namespace

// X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?, then scale and zero point of W and of R. The weights are
// taken as the reals that they stand for; ONNX Runtime also rounds data and state to 8 bits in each step, which only
// loses digits. The attribute says that a backend may round them too, to more bits.
Status dynamic_quantize_lstm(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(3));
  for (const std::size_t i : {1u, 2u})
    if (node.tensor(i).shape.size() != 3)
      return node.error(ErrorId::onnx_attribute, "its weights have rank %zu, expected 3", node.tensor(i).shape.size());
  QR_ASSIGN_OR_RETURN(const std::int32_t w, real_weights(node, 1, 8, 9, "W"));
  QR_ASSIGN_OR_RETURN(const std::int32_t r, real_weights(node, 2, 10, 11, "R"));
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::LSTM, {node.in(0), w, r, node.in(3), node.in(4), node.in(5),
                                                           node.in(6), node.in(7)}));
  made.set("dynamic_quantize", std::int64_t{1});
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
