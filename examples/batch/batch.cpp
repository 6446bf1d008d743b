// SPDX-License-Identifier: Apache-2.0
// Continuous batching: several requests at once, each token of all of them one run of the model, so its weights are
// read once for all. A request joins as soon as there is a place, and leaves when it has its tokens: its prompt runs
// alone, then its cache is put beside the others'. Rows end together: a shorter one begins with entries that its
// attention_mask hides. Positions are each row's own.
//   batch MODEL PLACES PROMPT...      (a prompt: 1,5,9:20, ids of tokens and how many are to follow)
// The model takes input_ids, attention_mask and position_ids of any batch, and a cache [batch, heads, past, size].
#include <quarry/quarry.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

using Numbers = std::vector<std::int64_t>;

struct Request {
  Numbers tokens;          // all but the last are in the cache once it has joined
  std::size_t length = 0;  // that it is to have
};

// The cache's tensors as dense bytes.
struct Cache {
  std::vector<qr::Tensor> tensors;
  std::vector<std::vector<char>> bytes;
  explicit Cache(const qr::State &state) : tensors(state.count()), bytes(state.count()) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      state.read(i, tensors[i]);  // what it is
      bytes[i].resize(tensors[i].size_bytes);
      tensors[i].qr_tensor::data = bytes[i].data();
      state.read(i, tensors[i]);
    }
  }
};

// One row's last `length` entries, [heads, past, size], to the end of another's.
void copy_row(const Cache &from, std::size_t from_row, Cache &to, std::size_t to_row, std::size_t length) {
  for (std::size_t i = 0; i < to.tensors.size(); ++i) {
    const auto dims = to.tensors[i].shape(), past = from.tensors[i].shape();
    const auto heads = static_cast<std::size_t>(dims[1]);
    const auto room = static_cast<std::size_t>(dims[2]), there = static_cast<std::size_t>(past[2]);
    const std::size_t entry = from.bytes[i].size() / static_cast<std::size_t>(past[0] * past[1] * past[2]);
    for (std::size_t h = 0; h < heads; ++h)
      std::memcpy(&to.bytes[i][((to_row * heads + h + 1) * room - length) * entry],
                  &from.bytes[i][((from_row * heads + h + 1) * there - length) * entry], length * entry);
  }
}

class Batch {
 public:
  explicit Batch(qr::Session session)
      : session_(std::move(session)), alone_(session_.clone()), state_(session_.state()), prompt_(alone_.state()) {}
  std::size_t size() const { return rows_.size(); }
  int runs() const { return runs_; }
  void join(Request &request) {
    prompt_.reset();
    run(alone_, {&request}, 0);
    if (request.tokens.size() >= request.length) return;
    std::vector<Request *> rows = rows_;
    rows.push_back(&request);
    place(rows);
  }
  // A token for each; those that have all theirs leave.
  void step() {
    run(session_, rows_, past_);
    past_ += 1;
    std::vector<Request *> rows;
    for (Request *row : rows_)
      if (row->tokens.size() < row->length) rows.push_back(row);
    if (rows.size() < rows_.size()) place(rows);
  }

 private:
  // Behind `past` entries, the last ones of a row its own: what is new of each row, of all as much.
  void run(qr::Session &session, const std::vector<Request *> &rows, std::int64_t past) {
    const auto batch = static_cast<std::int64_t>(rows.size());
    const auto fresh = past ? 1 : static_cast<std::int64_t>(rows[0]->tokens.size());
    Numbers ids, mask, positions;
    for (const Request *row : rows) {
      const auto all = static_cast<std::int64_t>(row->tokens.size());
      for (std::int64_t i = 0; i < past + fresh; ++i) mask.push_back(i >= past + fresh - all);
      for (std::int64_t at = all - fresh; at < all; ++at) ids.push_back(row->tokens[at]), positions.push_back(at);
    }
    std::vector<qr::Tensor> inputs;
    for (const qr::TensorInfo &info : session.inputs())
      inputs.push_back(info.name == "input_ids"        ? qr::Tensor::of(ids, {batch, fresh})
                       : info.name == "attention_mask" ? qr::Tensor::of(mask, {batch, past + fresh})
                                                       : qr::Tensor::of(positions, {batch, fresh}));
    const std::vector<qr::Tensor> outputs = session.run(inputs);
    const std::vector<std::int64_t> dims = outputs.at(0).shape();
    if (dims.size() != 3 || dims[0] != batch) throw std::runtime_error("the model gives no logits of each row");
    for (std::int64_t r = 0; r < batch; ++r) {
      const float *last = outputs[0].data<float>() + ((r + 1) * dims[1] - 1) * dims[2];
      rows[static_cast<std::size_t>(r)]->tokens.push_back(std::max_element(last, last + dims[2]) - last);
    }
    ++runs_;
  }
  // The rows of the next runs: of those that are there, and of one whose prompt has run.
  void place(const std::vector<Request *> &rows) {
    std::int64_t past = 0;
    for (const Request *row : rows) past = std::max(past, static_cast<std::int64_t>(row->tokens.size()) - 1);
    if (!rows.empty()) {
      const Cache fresh(prompt_), old(rows_.empty() ? prompt_ : state_);
      Cache made = fresh;
      for (std::size_t i = 0; i < made.tensors.size(); ++i) {
        qr::Tensor &tensor = made.tensors[i];
        const std::size_t entry = made.bytes[i].size() / static_cast<std::size_t>(tensor.dims[2]);
        tensor.dims[0] = static_cast<std::int64_t>(rows.size()), tensor.dims[2] = past;
        made.bytes[i].assign(entry * rows.size() * static_cast<std::size_t>(past), 0);
        tensor.qr_tensor::data = made.bytes[i].data(), tensor.size_bytes = made.bytes[i].size();
      }
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto found = std::find(rows_.begin(), rows_.end(), rows[r]);
        const bool is_old = found != rows_.end();
        copy_row(is_old ? old : fresh, is_old ? static_cast<std::size_t>(found - rows_.begin()) : 0, made, r,
                 rows[r]->tokens.size() - 1);
      }
      state_.reset();
      for (std::size_t i = 0; i < made.tensors.size(); ++i) state_.write(i, made.tensors[i]);
    }
    rows_ = rows, past_ = past;
  }

  qr::Session session_, alone_;
  qr::State state_, prompt_;
  std::vector<Request *> rows_;
  std::int64_t past_ = 0;  // entries of the rows' cache
  int runs_ = 0;
};

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: batch MODEL PLACES PROMPT...\n"), 2;
  std::vector<Request> requests;
  std::size_t tokens = 0;
  for (int i = 3; i < argc; ++i) {
    Request request;
    for (const char *at = argv[i]; *at && *at != ':'; at += *at == ',') {
      char *end = nullptr;
      request.tokens.push_back(std::strtoll(at, &end, 10));
      if (end == at) throw std::runtime_error(std::string("a prompt is like 1,5,9:20, found ") + argv[i]);
      at = end;
    }
    const char *const colon = std::strchr(argv[i], ':');
    const auto more = static_cast<std::size_t>(std::clamp(colon ? std::atoi(colon + 1) : 20, 1, 500));
    request.length = request.tokens.size() + more;
    if (request.tokens.empty()) throw std::runtime_error("a prompt without a token");
    requests.push_back(std::move(request)), tokens += more;
  }
  const qr::Runtime runtime;
  const qr::Options options(runtime, {{"state", "auto"}});
  Batch batch(qr::Session(qr::Model(runtime, argv[1], &options), &options));
  const auto places = static_cast<std::size_t>(std::clamp(std::atoi(argv[2]), 1, 64));
  for (std::size_t next = 0; next < requests.size() || batch.size() > 0;) {
    for (; next < requests.size() && batch.size() < places; ++next) batch.join(requests[next]);
    if (batch.size() > 0) batch.step();
  }
  for (const Request &request : requests) {
    for (const std::int64_t id : request.tokens) std::printf("%lld ", static_cast<long long>(id));
    std::printf("\n");
  }
  std::fprintf(stderr, "%d runs for %zu tokens\n", batch.runs(), tokens);
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "batch: %s\n", error.what()), 2;
}
