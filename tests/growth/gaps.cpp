// SPDX-License-Identifier: Apache-2.0
// Reports where import, passes and compilers of a large graph go long without asking whether to stop:
//   setarch -R gaps [NODES [SHAPE [MS]]]
// Everything is done twice: who asked before and behind a silence of more than MS (6) is looked for the second time,
// when it is known which question that was. The addresses are for addr2line.
#include <execinfo.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <vector>

#include "backends/cpu-reference/program.h"
#include "backends/cpu/compile/compile.h"
#include "backends/cpu/program/blob.h"
#include "base/stop.h"
#include "kernels/cpu/isa.h"
#include "kernels/reference/widen.h"
#include "prepare/lower.h"
#include "tests/growth/shapes.h"

using namespace quarry;

namespace {

struct Asker {
  void *frames[12];
  int count = 0;
};
struct Gap {
  long question;  // the one before it
  double seconds;
  const char *step;
  Asker before, behind;
};

class Listener final : public StopSource {
 public:
  explicit Listener(double longest) : longest_(longest) {}
  // Goes through the same once more, and notes who asked before and behind these.
  explicit Listener(std::vector<Gap> *gaps) : longest_(1e9), again_(gaps) {}

  bool stopped() const noexcept override {
    const double now = seconds();
    if (now - last_ > longest_) gaps.push_back({count_, now - last_, step_, {}, {}});
    ++count_;
    if (again_)
      for (Gap &gap : *again_) {
        if (gap.question == count_) note(gap.before);
        if (gap.question == count_ - 1) note(gap.behind);
      }
    last_ = seconds();
    return false;
  }
  Status status(std::string_view) const noexcept override { return {}; }
  void begin(const char *step) {
    static_cast<void>(stopped());
    step_ = step;
  }

  mutable std::vector<Gap> gaps;

 private:
  static double seconds() noexcept {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  static void note(Asker &asker) noexcept { asker.count = backtrace(asker.frames, 12); }

  const double longest_;
  std::vector<Gap> *const again_ = nullptr;
  mutable long count_ = 0;
  mutable double last_ = seconds();
  const char *step_ = "beginning";
};

Status go_through(const std::string &bytes, Listener &listener) {
  const StopScope scope(listener);
  const PoolScope blocks;  // as libquarry-prepare and the plugins have it
  listener.begin("open");
  QR_ASSIGN_OR_RETURN(const Unique<onnx_import::Model> model,
                      onnx_import::Model::open({bytes.data(), bytes.size()}, OpenFd()));
  listener.begin("verify");
  QR_RETURN_IF_ERROR(model->verify());
  Vector<onnx_import::InputBinding> bindings;
  for (const onnx_import::Declared &input : model->inputs()) bindings.push_back({input.shape, {}});
  listener.begin("import");
  qir::Store store;
  std::optional<qir::Graph> graph;
  QR_ASSIGN_OR_RETURN(graph, prepare::lower_graph(*model, bindings, store, nullptr));
  listener.begin("write the graph");
  qir::ConstantPool pool;
  QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> written, qir::write_graph(*graph, pool));
  listener.begin("end the graph");
  graph.reset();
  Vector<std::uint8_t> room(pool.size() + 64);
  auto *const constants = room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  pool.write_to(constants);
  const qir::Bytes segments[] = {{constants, pool.size()}};
  for (const bool dry_run : {true, false}) {
    listener.begin("read the graph");
    QR_ASSIGN_OR_RETURN(graph, qir::read_graph({written.data(), written.size()}, segments, 1));
    listener.begin(dry_run ? "cpu looks" : "cpu compiles");
    cpu::CompileOptions options;
    options.isa = &kernels::best_isa();
    options.dry_run = dry_run;
    QR_ASSIGN_OR_RETURN(const cpu::CompiledPlan compiled, cpu::compile(std::move(*graph), segments, options));
    listener.begin("write the plan");
    if (!dry_run) static_cast<void>(cpu::write_blob(compiled));
    listener.begin("end the plan");
  }
  QR_ASSIGN_OR_RETURN(graph, qir::read_graph({written.data(), written.size()}, segments, 1));
  listener.begin("cpu-reference");
  QR_RETURN_IF_ERROR(reference::widen_float16(*graph));
  QR_RETURN_IF_ERROR(reference::Program::build(*graph).take_status());
  listener.begin("the end");
  return {};
}

void print(const char *word, const Asker &asker) {
  std::printf("  %s", word);
  for (int i = 2; i < asker.count; ++i) std::printf(" %p", asker.frames[i]);
  std::printf("\n");
}

}  // namespace

int main(int argc, char **argv) {
  mallopt(M_PERTURB, 0);
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 150000;
  const double longest = argc > 3 ? std::atof(argv[3]) / 1e3 : 0.006;
  for (const test::GrowthShape &shape : test::kGrowthShapes) {
    if (argc > 2 && std::strcmp(argv[2], shape.name) != 0) continue;
    const std::string bytes = test::growth_model(shape, nodes);
    Listener first(longest), second(&first.gaps);
    for (Listener *const listener : {&first, &second})
      if (const Status status = go_through(bytes, *listener); !status.ok())
        return std::fprintf(stderr, "%s: %s\n", shape.name, String(status.message()).c_str()), 1;
    for (const Gap &gap : first.gaps) {
      std::printf("%s: %s: %.1f ms\n", shape.name, gap.step, 1e3 * gap.seconds);
      print("from", gap.before), print("to  ", gap.behind);
    }
  }
}
