// SPDX-License-Identifier: Apache-2.0
// Any bytes -> container -> everything that a session reads of it. Once as they are, and once with sums and sizes made
// to fit, so that the fuzzer gets past them.
#include "formats/qrm/prologue.h"
#include "formats/qrm/qrm.h"

namespace {

using namespace quarry;

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
    const Result<qir::Graph> graph = model->read_graph(i);
    if (graph.ok() && !qir::validate_structure(graph.value()).ok()) std::abort();  // rules are the backend's to check
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
