// SPDX-License-Identifier: Apache-2.0
#include "prepare/adapter.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "backends/common/json.h"
#include "backends/common/plugin_support.h"
#include "base/float16.h"
#include "base/os/path.h"
#include "base/text.h"
#include "prepare/adapter_file.h"
#include "prepare/read_file.h"

namespace quarry::prepare {
namespace {

using plugin::view;

// ---- scale --------------------------------------------------------------------------------------

struct Scale {
  std::optional<double> alpha;
  bool by_root = false;  // alpha / sqrt(rank), as "rank-stabilised" adapters have it
  double of(std::int64_t rank) const {
    return *alpha / (by_root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }
};

Status cannot(std::string_view file, const String &what) {
  return Status::errorf(ErrorId::adapter_unsupported, "%s: %s", printable(file), what);
}

// What PEFT writes beside an adapter; nothing where it is not there.
Status read_config(std::string_view path, std::string_view file, Scale *scale) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  if (path.empty()) return {};
  const std::size_t slash = os::last_separator(path);
  const String beside =
      String(slash == path.npos ? std::string_view() : path.substr(0, slash + 1)) + "adapter_config.json";
  auto bytes = read_file("the adapter's configuration", beside);
  if (!bytes.ok()) return bytes.status().id() == error_row(ErrorId::file_not_found).id ? Status() : bytes.take_status();
  if (bytes->size() > kMostBytes)
    return Status::errorf(ErrorId::adapter_damaged, "adapter_config.json: found %zu bytes, expected at most %llu",
                          bytes->size(), kMostBytes);
  auto config = htp::read_json({reinterpret_cast<const char *>(bytes->data()), bytes->size()}, "adapter_config.json");
  if (!config.ok()) return Status::error(ErrorId::adapter_damaged, config.status().message());
  const auto *const members = config->as<htp::JsonObject>();
  if (!members) return Status::error(ErrorId::adapter_damaged, "adapter_config.json: found no object, expected one");
  for (const htp::JsonMember &member : *members) {
    const bool *const flag = member.value.as<bool>();
    const double *const number = member.value.as<double>();
    const String *const text = member.value.as<String>();
    const auto *const object = member.value.as<htp::JsonObject>();
    if (member.name == "lora_alpha" && number) scale->alpha = *number;
    if (member.name == "use_rslora" && flag) scale->by_root = *flag;
    if (member.name == "peft_type" && text && *text != "LORA")
      return cannot(file, format("adapter_config.json says peft_type %s, expected LORA", printable(*text)));
    if ((member.name == "use_dora" || member.name == "use_qalora") && flag && *flag)
      return cannot(file, format("adapter_config.json says %s, expected low-rank updates alone", member.name));
    if (member.name == "alpha_pattern" && object && !object->empty())
      return cannot(file, "adapter_config.json has an alpha_pattern, expected one lora_alpha for all weights");
  }
  return {};
}

Result<Scale> find_scale(const qr_prepare_adapter &from, const AdapterFile &file, std::string_view path,
                         std::string_view name) {
  Scale scale;
  for (const auto &[key, value] : file.metadata)
    if (key == "lora_alpha" || key == "alpha") {
      char *end = nullptr;
      const double number = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != 0)
        return Status::errorf(ErrorId::adapter_damaged, "%s: its metadata say %s is '%s', expected a number",
                              printable(name), key, printable(value));
      scale.alpha = number;
    }
  QR_RETURN_IF_ERROR(read_config(path, name, &scale));
  if (from.alpha != 0) scale.alpha = from.alpha;
  if (scale.alpha && !std::isfinite(*scale.alpha))
    return Status::errorf(ErrorId::adapter_damaged, "%s: found a lora_alpha that is no finite number", printable(name));
  return scale;
}

// ---- names --------------------------------------------------------------------------------------

// How a file lays an update out: as torch.nn.Linear has weights ([rank, K], [N, rank]), or as products read them.
enum class Layout : std::uint8_t { Turned, Straight, Inputs };
struct Half {
  bool is_b = false;
  Layout layout = Layout::Turned;
  String weight;  // whose update it is
};

// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", ".lora_A.default.weight", ".lora_A.MatMul.weight",
// or the name of an input.
std::optional<Half> read_name(std::string_view name) {
  Half half;
  const std::string_view input = QR_ADAPTER_INPUT;
  if (name.starts_with(input) && name.size() > input.size() + 2 && name[input.size() + 1] == '.' &&
      (name[input.size()] == 'A' || name[input.size()] == 'B')) {
    half.is_b = name[input.size()] == 'B';
    half.layout = Layout::Inputs;
    half.weight = name.substr(input.size() + 2);
    return half;
  }
  half.weight = name;
  for (char &letter : half.weight)
    if (letter == '/') letter = '.';
  name = half.weight;
  while (name.starts_with('.')) name.remove_prefix(1);
  const std::size_t at = name.rfind(".lora_");
  if (at == name.npos) return std::nullopt;
  const std::string_view rest = name.substr(at + 6);
  if (rest.size() < 2 || (rest[0] != 'A' && rest[0] != 'B') || rest[1] != '.') return std::nullopt;
  half.is_b = rest[0] == 'B';
  std::string_view end = rest.substr(2);
  if (end.starts_with("MatMul.")) half.layout = Layout::Straight;
  if (end != "weight" && (!end.ends_with(".weight") || end.find('.') != end.size() - 7)) return std::nullopt;
  name = name.substr(0, at);
  constexpr std::string_view kWrapped = "base_model.model.";
  if (name.starts_with(kWrapped)) name.remove_prefix(kWrapped.size());
  half.weight = String(name);
  return half;
}

// Exporters write "attn" for it.
String usual(std::string_view name) {
  String out(name);
  constexpr std::string_view kLong = "self_attn.", kShort = "attn.";
  for (std::size_t at = out.find(kLong); at != String::npos; at = out.find(kLong, at + kShort.size()))
    if (at == 0 || out[at - 1] == '.') out.replace(at, kLong.size(), kShort);
  return out;
}

// A weight of the graph that an adapter may change.
struct Target {
  String name;
  const qr_prepare_adapter_input *a = nullptr, *b = nullptr;
  bool by_point() const { return a->rank == 4; }
  std::int64_t room() const { return a->dims[by_point() ? 0 : 1]; }
  std::int64_t from() const { return a->dims[by_point() ? 1 : 0]; }
  std::int64_t to() const { return b->dims[by_point() ? 0 : 1]; }
};

// By whole names and by their ends behind a dot.
class Targets {
 public:
  explicit Targets(const qr_prepare_adapter &from) {
    StringMap<std::size_t> places;
    for (std::uint64_t i = 0; i < from.input_count; ++i) {
      const auto half = read_name(view(from.inputs[i].name));
      if (!half || half->layout != Layout::Inputs) continue;
      const auto [at, is_new] = places.emplace(half->weight, all_.size());
      if (is_new) all_.push_back({half->weight});
      (half->is_b ? all_[at->second].b : all_[at->second].a) = &from.inputs[i];
    }
    std::erase_if(all_, [](const Target &target) { return !target.a || !target.b; });
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const String name = usual(all_[i].name);
      whole_.emplace(name, i);
      for (std::size_t dot = name.find('.'); dot != String::npos; dot = name.find('.', dot + 1)) {
        const auto [at, is_new] = ends_.emplace(name.substr(dot + 1), i);
        if (!is_new) at->second = kSeveral;
      }
    }
  }
  const Vector<Target> &all() const { return all_; }
  static constexpr std::size_t kNone = SIZE_MAX, kSeveral = SIZE_MAX - 1;
  std::size_t find(std::string_view weight) const {
    const String name = usual(weight);
    if (const auto at = whole_.find(name); at != whole_.end()) return at->second;
    if (const auto at = ends_.find(name); at != ends_.end()) return at->second;
    for (std::size_t dot = name.find('.'); dot != String::npos; dot = name.find('.', dot + 1))
      if (const auto at = whole_.find(std::string_view(name).substr(dot + 1)); at != whole_.end()) return at->second;
    return kNone;
  }

 private:
  Vector<Target> all_;
  StringMap<std::size_t> whole_, ends_;
};

// ---- values -------------------------------------------------------------------------------------

double number_at(const AdapterTensor &tensor, std::int64_t index) {
  const char *const from = static_cast<const char *>(tensor.data.data);
  const auto read = [&](auto value) {
    std::memcpy(&value, from + static_cast<std::size_t>(index) * sizeof value, sizeof value);
    return value;
  };
  switch (tensor.dtype) {
    case DType::F16: return static_cast<double>(f16_to_f32(read(std::uint16_t{})));
    case DType::BF16: return static_cast<double>(bf16_to_f32(read(std::uint16_t{})));
    case DType::F64: return read(double{});
    default: return static_cast<double>(read(float{}));
  }
}

void put_number(const qr_prepare_adapter_input &to, std::int64_t index, double number) {
  const auto write = [&](auto value) {
    std::memcpy(static_cast<char *>(to.data) + static_cast<std::size_t>(index) * sizeof value, &value, sizeof value);
  };
  const auto real = static_cast<float>(number);
  switch (static_cast<DType>(to.dtype)) {
    case DType::F16: write(f32_to_f16(real)); break;
    case DType::BF16: write(f32_to_bf16(real)); break;
    default: write(real);
  }
}

// rows x columns of the file, at [row * row_step + column * column_step] of the input.
void put_all(const AdapterTensor &tensor, std::int64_t rows, std::int64_t columns, std::int64_t row_step,
             std::int64_t column_step, double scale, const qr_prepare_adapter_input &to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      put_number(to, row * row_step + column * column_step, number_at(tensor, row * columns + column) * scale);
}

// ---- lists --------------------------------------------------------------------------------------

// The path of the one line "GRAPH;PATH" that a session, which has one graph, can have; as ONNX Runtime's provider reads
// it, whose paths are of binary sections.
Result<std::string_view> read_list(std::string_view text, std::string_view name) {
  constexpr std::size_t kMostBytes = 64 << 10;
  const auto bad = [&](const String &what) {
    return Status::errorf(ErrorId::adapter_damaged, "%s: found %s, expected one line GRAPH;PATH", printable(name), what)
        .with("option", "qnn.lora_config");
  };
  if (text.size() > kMostBytes || text.find('\0') != text.npos) return bad("what is no short text");
  std::string_view path;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t middle = line.find(';');
    if (middle == line.npos || middle == 0 || middle + 1 == line.size()) return bad(format("'%s'", printable(line)));
    if (!path.empty()) return bad("several lines");
    path = line.substr(middle + 1);
  }
  if (path.empty()) return bad("no line");
  return path;
}

// ---- the whole ----------------------------------------------------------------------------------

class Reading {
 public:
  Reading(const qr_prepare_adapter &from, const AdapterFile &file, const Scale &scale, std::string_view name)
      : from_(from), file_(file), scale_(scale), name_(name), targets_(from) {}

  Result<std::uint64_t> run() {
    Vector<Update> updates(targets_.all().size());
    for (const AdapterTensor &tensor : file_.tensors) QR_RETURN_IF_ERROR(place(tensor, updates));
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (!updates[i].a && !updates[i].b) continue;
      QR_RETURN_IF_ERROR(check(targets_.all()[i], updates[i]));
      ++changed;
    }
    if (changed == 0)
      return misfit("it has no tensors, expected lora_A and lora_B of weights that adapters may change");
    for (std::size_t i = 0; i < updates.size(); ++i)
      if (updates[i].a) QR_RETURN_IF_ERROR(write(targets_.all()[i], updates[i]));
    return changed;
  }

 private:
  struct Update {
    const AdapterTensor *a = nullptr, *b = nullptr;
    Layout layout_a = Layout::Turned, layout_b = Layout::Turned;
    std::int64_t rank = 0;
    bool is_scaled = false;  // else it has the names of the graph's inputs: values as they are
  };

  Status misfit(const String &what) const {
    return Status::errorf(ErrorId::adapter_misfit, "%s: %s", printable(name_), what);
  }
  Status unknown(const AdapterTensor &tensor, const Half &half, bool several) const {
    NearestWord nearest(half.weight);
    for (const Target &target : targets_.all()) nearest.offer(target.name);
    const String near = nearest.word().empty() ? String() : format("; did you mean '%s'?", printable(nearest.word()));
    return misfit(format("tensor %s: found %s '%s', expected one of the %zu that adapters may change%s",
                         printable(tensor.name), several ? "several weights" : "no weight", printable(half.weight),
                         targets_.all().size(), near))
        .with("tensor", tensor.name);
  }
  Status place(const AdapterTensor &tensor, Vector<Update> &updates) const {
    const auto half = read_name(tensor.name);
    if (!half)
      return cannot(name_, format("tensor %s is no lora_A or lora_B, expected low-rank updates of weights alone",
                                  printable(tensor.name)))
          .with("tensor", tensor.name);
    const std::size_t at = targets_.find(half->weight);
    if (at == Targets::kNone || at == Targets::kSeveral) return unknown(tensor, *half, at == Targets::kSeveral);
    Update &update = updates[at];
    const AdapterTensor *&place = half->is_b ? update.b : update.a;
    if (place)
      return misfit(format("tensors %s and %s are both the %s of weight %s, expected one", printable(place->name),
                           printable(tensor.name), half->is_b ? "lora_B" : "lora_A",
                           printable(targets_.all()[at].name)))
          .with("tensor", tensor.name);
    place = &tensor;
    Layout layout = half->layout;
    if (layout == Layout::Inputs) layout = targets_.all()[at].by_point() ? Layout::Turned : Layout::Straight;
    else update.is_scaled = true;
    (half->is_b ? update.layout_b : update.layout_a) = layout;
    return {};
  }
  // [rows, columns], with ones behind them as convolutions have.
  static bool is_matrix(const AdapterTensor &tensor, std::int64_t *rows, std::int64_t *columns) {
    if (tensor.shape.size() < 2) return false;
    for (std::size_t i = 2; i < tensor.shape.size(); ++i)
      if (tensor.shape[i] != 1) return false;
    *rows = tensor.shape[0], *columns = tensor.shape[1];
    return true;
  }
  Status check(const Target &target, Update &update) const {
    const auto here = [&] { return printable(target.name); };
    if (!update.a || !update.b)
      return misfit(format("weight %s: found lora_%c alone, expected lora_A and lora_B", here(), update.a ? 'A' : 'B'));
    std::int64_t rows[2] = {0, 0}, columns[2] = {0, 0};
    const AdapterTensor *const halves[2] = {update.a, update.b};
    for (std::size_t i = 0; i < 2; ++i) {
      const DType dtype = halves[i]->dtype;
      if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16 && dtype != DType::F64)
        return cannot(name_, format("tensor %s is of type %s, expected f32, f16, bf16 or f64",
                                    printable(halves[i]->name), dtype_name(dtype)))
            .with("tensor", halves[i]->name);
      if (!is_matrix(*halves[i], &rows[i], &columns[i]))
        return misfit(format("tensor %s: found the shape %s, expected a matrix", printable(halves[i]->name),
                             shape_text(halves[i]->shape.data(), halves[i]->shape.size())))
            .with("tensor", halves[i]->name);
    }
    const bool turned_a = update.layout_a == Layout::Turned, turned_b = update.layout_b == Layout::Turned;
    const std::int64_t from = turned_a ? columns[0] : rows[0], to = turned_b ? rows[1] : columns[1];
    update.rank = turned_a ? rows[0] : columns[0];
    const std::int64_t other = turned_b ? columns[1] : rows[1];
    if (from != target.from() || to != target.to())
      return misfit(format("weight %s: found an update from %lld to %lld numbers, expected from %lld to %lld", here(),
                           from, to, target.from(), target.to()));
    if (update.rank != other)
      return misfit(format("weight %s: found rank %lld in lora_A and %lld in lora_B, expected the same", here(),
                           update.rank, other));
    if (update.rank < 1 || update.rank > target.room())
      return misfit(
          format("weight %s: found rank %lld, expected 1 to %lld, for which there is room (option "
                 "adapter.rank)",
                 here(), update.rank, target.room()));
    return {};
  }
  Status write(const Target &target, const Update &update) const {
    if (update.is_scaled && !scale_.alpha)
      return Status::errorf(ErrorId::adapter_no_alpha,
                            "%s: found no lora_alpha, by which updates are scaled, expected it in adapter_config.json "
                            "beside the file, in the file's metadata, or as an argument",
                            printable(name_));
    const double scale = from_.strength * (update.is_scaled ? scale_.of(update.rank) : 1);
    const std::int64_t rank = update.rank, room = target.room(), from = target.from(), to = target.to();
    // Where element [j of rank, k] of A and [n, j] of B lie in the inputs.
    const std::int64_t a_j = target.by_point() ? from : 1, a_k = target.by_point() ? 1 : room;
    const std::int64_t b_n = target.by_point() ? room : 1, b_j = target.by_point() ? 1 : to;
    if (update.layout_a == Layout::Turned) put_all(*update.a, rank, from, a_j, a_k, 1, *target.a);
    else put_all(*update.a, from, rank, a_k, a_j, 1, *target.a);
    if (update.layout_b == Layout::Turned) put_all(*update.b, to, rank, b_n, b_j, scale, *target.b);
    else put_all(*update.b, rank, to, b_j, b_n, scale, *target.b);
    return {};
  }

  const qr_prepare_adapter &from_;
  const AdapterFile &file_;
  const Scale scale_;
  const std::string_view name_;
  const Targets targets_;
};

}  // namespace

Result<std::uint64_t> read_adapter(const qr_prepare_adapter &from) {
  qir::Bytes bytes{from.file.data, from.file.size};
  std::string_view path = view(from.path);
  Vector<std::uint8_t> listed;
  if (from.is_list) {
    QR_ASSIGN_OR_RETURN(path, read_list({static_cast<const char *>(bytes.data), bytes.size}, path));
    QR_ASSIGN_OR_RETURN(listed, read_file("adapter", path));
    bytes = {listed.data(), listed.size()};
  }
  const std::string_view name = path.empty() ? "the adapter" : path;
  QR_ASSIGN_OR_RETURN(const Unique<AdapterFile> file, read_adapter_file(bytes, name));
  QR_ASSIGN_OR_RETURN(const Scale scale, find_scale(from, *file, path, name));
  return Reading(from, *file, scale, name).run();
}

}  // namespace quarry::prepare
