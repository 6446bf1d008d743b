// SPDX-License-Identifier: Apache-2.0
// Any bytes -> container -> everything that a session reads of it. Once as they are, and once with sums and sizes made
// to fit, so that the fuzzer gets past them.
#include "formats/qrm/prologue.h"
#include "formats/qrm/qrm.h"
#include "tests/support/kept_graph.h"

namespace {

using namespace quarry;

// As the core does for a report.
void read_all(const qir::Outline &outline) {
  volatile std::size_t bytes = outline.operators().size();
  for (std::size_t n = 0; n < outline.node_count(); ++n) {
    bytes = bytes + outline.node_name(n).size() + outline.op_text(n).size();
    for (const auto tensors : {outline.node_inputs(n), outline.node_outputs(n)})
      for (const std::int32_t id : tensors)
        if (id != qir::kAbsent) bytes = bytes + outline.tensor_name(id).size() + outline.is_constant(id);
  }
}

void use(const void *data, std::uint64_t size) {
  Result<qrm::RawFile> file = qrm::RawFile::from_memory(data, size);
  if (!file.ok()) return;
  Result<qrm::ValidatedModel> model = qrm::ValidatedModel::open(std::move(*file), qrm::SumCheck::Off);
  if (!model.ok()) return;
  for (std::uint32_t i = 0; i < model->segments().size(); ++i) {
    const Result<qir::Bytes> bytes = model->segment(i);
    if (!bytes.ok()) std::abort();  // no sums: every segment is there
    if (bytes.value().size)
      static_cast<void>(*(static_cast<const volatile char *>(bytes.value().data) + bytes.value().size - 1));
  }
  for (std::uint32_t i = 0; i < model->metadata().graphs.size(); ++i) {
    const Result<qir::Outline> outline = model->outline(i);
    if (!outline.ok()) continue;
    read_all(outline.value());
    // A graph that breaks rules is the backend's to refuse; one that it takes is what the outline says.
    const Result<qir::Graph> graph = test::kept_graph(*model, i);
    if (!graph.ok() && graph.status().code() == QR_INTERNAL) std::abort();
  }
  for (const qrm::ContextInfo &context : model->metadata().contexts)
    for (const qrm::Program &program : context.programs)
      if (!model->segment(program.blob_segment).ok() || !model->segments(program.segments).ok()) std::abort();
  if (Status status = model->verify(); !status.ok() && status.message().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  use(data, size);
  if (size < sizeof(qrm::Prologue)) return 0;
  void *copy = allocate_block(size, 64);
  std::memcpy(copy, data, size);
  auto *prologue = static_cast<qrm::Prologue *>(copy);
  std::memcpy(prologue->magic, qrm::kMagic, sizeof qrm::kMagic);
  prologue->major = qrm::kFormatMajor;
  prologue->required_features = 0;
  prologue->file_size = size;
  if (prologue->metadata_offset <= size && prologue->metadata_size <= size - prologue->metadata_offset)
    prologue->metadata_sum = hash64(static_cast<char *>(copy) + prologue->metadata_offset, prologue->metadata_size);
  prologue->sum = prologue->own_sum();
  use(copy, size);
  free_block(copy);
  return 0;
}
