// SPDX-License-Identifier: Apache-2.0
// What was compiled, as a container: of one model, or of several networks that share what is equal.
#include <algorithm>

#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"
#include "runtime/compile/compile.h"

namespace quarry {
namespace {

Result<std::uint32_t> copy_segment(qrm::Writer &writer, const qrm::ValidatedModel &from, std::uint32_t index) {
  const qrm::SegmentInfo &info = from.segments()[index];
  QR_ASSIGN_OR_RETURN(const qir::Bytes bytes, from.segment(index));
  return writer.add_segment(info.kind, info.name, bytes, info.align);
}

// Copies the contexts of other backends and targets out of the container that was compiled again; those of the whole
// are none of a part.
Status keep_contexts(const CompileJob &job, qrm::Writer &writer, Vector<qrm::ContextInfo> &out) {
  if (!job.model.is_container() || !job.settings.part.empty()) return {};
  const qrm::ValidatedModel &from = job.model.container();
  for (const qrm::ContextInfo &context : from.metadata().contexts) {
    const bool made_anew = std::any_of(out.begin(), out.end(), [&](const qrm::ContextInfo &made) {
      return made.backend == context.backend && made.target == context.target;
    });
    if (made_anew) continue;
    qrm::ContextInfo kept = context;
    for (qrm::Program &program : kept.programs) {
      QR_ASSIGN_OR_RETURN(program.blob_segment, copy_segment(writer, from, program.blob_segment));
      for (std::uint32_t &segment : program.segments) {
        QR_ASSIGN_OR_RETURN(segment, copy_segment(writer, from, segment));
      }
    }
    out.push_back(std::move(kept));
  }
  return {};
}

class ContainerWriter {
 public:
  ContainerWriter(const CompileJob &job, const CompiledModel &compiled, qrm::Writer &writer)
      : job_(job),
        compiled_(compiled),
        id_(job.plugin->id()),
        align_(qrm::Writer::mapping_align(compiled.programs()[0].blob().target)),
        writer_(writer) {}

  // Adds what belongs to the model to the writer's segments.
  Result<qrm::Metadata> add();

 private:
  void describe();
  Status add_graphs();
  Status add_context(const CompiledTarget &of);
  Status add_program(const CompiledProgram &made, qrm::Program &stored);
  // A segment of the graphs that the backend has as it is.
  Result<std::uint32_t> keep(std::uint64_t graph, std::uint64_t segment);

  const CompileJob &job_;
  const CompiledModel &compiled_;
  const String id_;
  const std::uint32_t align_;
  qrm::Writer &writer_;
  qrm::Metadata metadata_;
};

void ContainerWriter::describe() {
  metadata_.producer = format("quarry %s", qr_version());
  metadata_.inputs = Vector<qrm::TensorInfo>(compiled_.signature().inputs);
  metadata_.outputs = Vector<qrm::TensorInfo>(compiled_.signature().outputs);
  if (job_.options)
    for (const auto &[key, value] : job_.options->values())
      if (!key.starts_with("metadata.")) metadata_.created_by.push_back({key, value});
  metadata_.source = job_.model.source();
  metadata_.user = job_.model.properties();
  for (const KeyValue &pair : job_.settings.metadata) {
    std::erase_if(metadata_.user, [&](const qrm::KeyValue &old) { return old.key == pair.key; });
    metadata_.user.push_back({String(pair.key), String(pair.value)});
  }
}

Result<std::uint32_t> ContainerWriter::keep(std::uint64_t graph, std::uint64_t segment) {
  const qr_plugin_bytes &bytes = compiled_.portable_graphs().graphs()[graph].segments[segment];
  return writer_.add_segment(qrm::SegmentKind::Weights, segment ? format("weights %llu", segment) : String("weights"),
                             {bytes.data, bytes.size}, align_);
}

Status ContainerWriter::add_graphs() {
  const auto &graphs = compiled_.portable_graphs().graphs();
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    const PortableGraph &graph = graphs[g];
    qrm::GraphInfo info;
    info.name = graph.name;
    info.input_dims = Vector<qir::Shape>(compiled_.input_dims()[g]);
    info.output_dims = Vector<qir::Shape>(compiled_.output_dims()[g]);
    if (job_.settings.keep_graph) {
      for (std::uint64_t s = 0; s < graph.segments.size(); ++s) {
        QR_ASSIGN_OR_RETURN(const std::uint32_t number, keep(g, s));
        info.segments.push_back(number);
      }
      QR_ASSIGN_OR_RETURN(info.qir_segment,
                          writer_.add_segment(qrm::SegmentKind::Graph, format("graph %u", g),
                                              {graph.qir.data, graph.qir.size}, qrm::kMinSegmentAlign));
    }
    metadata_.graphs.push_back(std::move(info));
  }
  return {};
}

Status ContainerWriter::add_program(const CompiledProgram &made, qrm::Program &stored) {
  const loader::CompiledBlob &program = made.blob();
  const std::uint32_t first = made.of_first ? 0 : made.graphs[0];
  stored.graphs = made.graphs;
  stored.key = program.key;
  if (program.has_plan) stored.plan = plan_of(program.plan);
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const loader::CompiledSegment &segment = program.segments[s];
    auto number = segment.kept
                      ? keep(made.graphs[segment.request_graph], segment.request_segment)
                      : writer_.add_segment(qrm::SegmentKind::Weights, format("%s packed %u.%zu", id_, first, s),
                                            {segment.bytes.data(), segment.bytes.size()},
                                            std::max(align_, static_cast<std::uint32_t>(segment.align)));
    if (!number.ok()) return number.take_status();
    stored.segments.push_back(number.value());
  }
  QR_ASSIGN_OR_RETURN(stored.blob_segment, writer_.add_segment(qrm::SegmentKind::Blob, format("%s blob %u", id_, first),
                                                               {program.blob.data(), program.blob.size()}, align_));
  return {};
}

Status ContainerWriter::add_context(const CompiledTarget &of) {
  qrm::ContextInfo &context = metadata_.contexts.emplace_back();
  context.backend = id_;
  context.backend_version.assign(job_.plugin->version());
  context.target.assign(of.programs[0].blob().target);
  context.blob_version = job_.plugin->blob_version();
  for (const auto &[key, value] : of.options) context.options.push_back({key, value});
  for (const CompiledProgram &made : of.programs)
    QR_RETURN_IF_ERROR(add_program(made, context.programs.emplace_back()));
  return {};
}

Result<qrm::Metadata> ContainerWriter::add() {
  describe();
  QR_RETURN_IF_ERROR(add_graphs());
  for (const CompiledTarget &of : compiled_.targets()) QR_RETURN_IF_ERROR(add_context(of));
  QR_RETURN_IF_ERROR(keep_contexts(job_, writer_, metadata_.contexts));
  QR_RETURN_IF_ERROR(job_.signal.check("writing the container"));
  QR_RETURN_IF_ERROR(job_.progress.report(0, 0, "write"));
  return std::move(metadata_);
}

}  // namespace

Status write_container(const CompileJob &job, const CompiledModel &compiled, std::string_view name, FileSink &files) {
  const CallEvents::Phase phase(job.events, "write container");
  qrm::Writer writer;
  QR_ASSIGN_OR_RETURN(const qrm::Metadata metadata, ContainerWriter(job, compiled, writer).add());
  return writer.write(files, name, metadata);
}

Status write_networks(const Vector<Unique<CompileJob>> &jobs, const Vector<Ref<CompiledModel>> &compiled,
                      const Vector<String> &names, std::string_view name, FileSink &files) {
  const CallEvents::Phase phase(jobs[0]->events, "write container");
  qrm::Writer writer;
  qrm::Metadata whole;
  Vector<Vector<std::uint8_t>> networks;  // the writer borrows them
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    QR_ASSIGN_OR_RETURN(qrm::Metadata metadata, ContainerWriter(*jobs[i], *compiled[i], writer).add());
    if (i == 0) whole.producer = metadata.producer, whole.created_by = metadata.created_by;
    metadata.created_by.push_back({"model", names[i]});  // no two are equal
    QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> bytes, qrm::write_metadata(metadata, {}));
    networks.push_back(std::move(bytes));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    QR_RETURN_IF_ERROR(writer
                           .add_segment(qrm::SegmentKind::Network, names[i], {networks[i].data(), networks[i].size()},
                                        qrm::kMinSegmentAlign)
                           .take_status());
  return writer.write(files, name, whole);
}

}  // namespace quarry
