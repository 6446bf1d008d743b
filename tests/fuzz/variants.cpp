// SPDX-License-Identifier: Apache-2.0
// Runs models in variants that must not matter, and demands the same bits of all: 1, 2, 3, 5 and 8 threads; memory of
// an allocator that fills what it gives with 0xCD and what it takes back with 0xDD, keeps that for a while and looks
// whether anybody wrote there, or beside a block; inputs and outputs between pages that nobody may touch, at offsets of
// 0 to 63 bytes, inputs that nobody may write.
//   variants BACKEND ROUNDS SEED MODEL...    another seed, other values and offsets; a model has the same ones among
//   others
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "quarry/quarry.hpp"

namespace {

constexpr unsigned char kNew = 0xCD, kFreed = 0xDD, kBeside = 0xFD;
std::atomic<int> faults{0};

void fault(const std::string &what) {
  std::fprintf(stderr, "FAILED %s\n", what.c_str());
  ++faults;
}

bool all(const unsigned char *bytes, std::size_t count, unsigned char value) {
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] != value) return false;
  return true;
}

// ---- the allocator

class Poison {
 public:
  ~Poison() { shrink(0); }
  qr_allocator allocator() {
    qr_allocator made = QR_ALLOCATOR_INIT;
    made.self = this;
    made.alloc = [](void *self, std::uint64_t size, std::uint64_t align) {
      return static_cast<Poison *>(self)->give(size, align);
    };
    made.free = [](void *self, void *ptr, std::uint64_t size, std::uint64_t align) {
      if (ptr) static_cast<Poison *>(self)->take(static_cast<unsigned char *>(ptr), size, align);
    };
    return made;
  }

 private:
  static constexpr std::size_t kMargin = 64;  // behind a block; before it as much as its alignment

  struct Block {
    unsigned char *whole;
    std::size_t before, size;
  };

  void *give(std::size_t size, std::size_t align) {
    const std::size_t before = align < kMargin ? kMargin : align;
    void *whole = nullptr;
    if (posix_memalign(&whole, before, before + size + kMargin) != 0) return nullptr;
    auto *const bytes = static_cast<unsigned char *>(whole);
    std::memset(bytes, kBeside, before);
    std::memset(bytes + before, kNew, size);
    std::memset(bytes + before + size, kBeside, kMargin);
    return bytes + before;
  }
  void take(unsigned char *ptr, std::size_t size, std::size_t align) {
    const std::size_t before = align < kMargin ? kMargin : align;
    if (!all(ptr - before, before, kBeside)) fault("somebody wrote before a block of " + std::to_string(size));
    if (!all(ptr + size, kMargin, kBeside)) fault("somebody wrote behind a block of " + std::to_string(size));
    std::memset(ptr, kFreed, size);
    const std::lock_guard<std::mutex> lock(mutex_);
    freed_.push_back({ptr - before, before, size});
    kept_ += size;
    shrink(std::size_t{64} << 20);
  }
  void shrink(std::size_t most) {
    while (!freed_.empty() && (kept_ > most || freed_.size() > (most ? 4096 : 0))) {
      const Block block = freed_.front();
      freed_.pop_front();
      kept_ -= block.size;
      if (!all(block.whole + block.before, block.size, kFreed))
        fault("somebody wrote into a block of " + std::to_string(block.size) + " that was freed");
      std::free(block.whole);
    }
  }

  std::mutex mutex_;
  std::deque<Block> freed_;
  std::size_t kept_ = 0;
};

// ---- buffers between pages

class Fenced {
 public:
  // `behind`: the data end `offset` bytes before a page that nobody may touch; else they begin as far behind one.
  Fenced(std::size_t size, std::size_t offset, bool behind) : size_(size), offset_(offset), behind_(behind) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (size + offset + page - 1) / page * page;
    bytes_ = inside_ + 2 * page;
    map_ =
        static_cast<unsigned char *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map_ == MAP_FAILED) std::abort();
    mprotect(map_, page, PROT_NONE);
    mprotect(map_ + page + inside_, page, PROT_NONE);
    first_ = map_ + page;
    std::memset(first_, kBeside, inside_);
  }
  ~Fenced() { munmap(map_, bytes_); }
  Fenced(const Fenced &) = delete;
  Fenced &operator=(const Fenced &) = delete;
  unsigned char *data() const { return behind_ ? first_ + inside_ - offset_ - size_ : first_ + offset_; }
  void forbid_writing() const { mprotect(first_, inside_, PROT_READ); }
  bool untouched_beside() const {
    return all(first_, static_cast<std::size_t>(data() - first_), kBeside) &&
           all(data() + size_, static_cast<std::size_t>(first_ + inside_ - data()) - size_, kBeside);
  }

 private:
  std::size_t size_, offset_, inside_ = 0, bytes_ = 0;
  bool behind_;
  unsigned char *map_ = nullptr, *first_ = nullptr;
};

// ---- runs

using Bytes = std::vector<unsigned char>;

Bytes random_values(const qr::TensorInfo &info, std::mt19937_64 &random) {
  Bytes bytes(info.size_bytes);
  const auto fill = [&](auto value) {
    for (std::size_t i = 0; i + sizeof value <= bytes.size(); i += sizeof value) {
      value = static_cast<decltype(value)>(static_cast<int>(random() % 33) / 8.0 -
                                           (std::is_signed_v<decltype(value)> ? 2 : 0));
      std::memcpy(bytes.data() + i, &value, sizeof value);
    }
  };
  switch (info.dtype) {
    case QR_DTYPE_F32: fill(float{}); break;
    case QR_DTYPE_F64: fill(double{}); break;
    case QR_DTYPE_I64:
    case QR_DTYPE_U64: fill(std::uint64_t{}); break;
    case QR_DTYPE_I32:
    case QR_DTYPE_U32: fill(std::uint32_t{}); break;
    case QR_DTYPE_F16:
    case QR_DTYPE_BF16:
      for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2)
        bytes[i + 1] = static_cast<unsigned char>(0x3c + random() % 4);
      break;
    default:
      for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random() % 2);
  }
  return bytes;
}

struct Case {
  const qr::Runtime &runtime;
  std::string backend, path;
  std::vector<Bytes> inputs;

  qr::Session session(unsigned threads) const {
    const qr::Options options(runtime, {{"backend", backend}, {"threads", std::to_string(threads)}});
    return qr::Session(qr::Model(runtime, path, &options), &options);
  }
  // Outputs of a run whose buffers are the session's.
  std::vector<Bytes> plain(qr::Session &session) const {
    std::vector<qr::Tensor> in;
    std::vector<Bytes> copies = inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      in.emplace_back(session.input(i).dtype, session.input(i).dims, copies[i].data());
    std::vector<Bytes> out;
    for (const qr::Tensor &tensor : session.run(in)) {
      const auto *const bytes = static_cast<const unsigned char *>(tensor.bytes());
      out.emplace_back(bytes, bytes + tensor.size_bytes);
    }
    return out;
  }
  // The same between fences, where the shapes of outputs are known.
  std::vector<Bytes> fenced(qr::Session &session, std::mt19937_64 &random) const {
    std::vector<std::unique_ptr<Fenced>> memory;
    const auto room = [&](std::size_t size) {
      return memory.emplace_back(std::make_unique<Fenced>(size, random() % 64, random() % 4 != 0))->data();
    };
    std::vector<qr::Tensor> in, out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const qr::TensorInfo info = session.input(i);
      unsigned char *const data = room(inputs[i].size());
      if (!inputs[i].empty()) std::memcpy(data, inputs[i].data(), inputs[i].size());
      memory.back()->forbid_writing();
      in.emplace_back(info.dtype, info.dims, data);
    }
    for (const qr::TensorInfo &info : session.outputs()) {
      const bool known = info.size_bytes != 0;
      qr::Tensor made = known ? qr::Tensor(info.dtype, info.dims, room(info.size_bytes)) : qr::Tensor();
      out.push_back(made);
    }
    session.run(in, out);
    for (const auto &one : memory)
      if (!one->untouched_beside()) fault(path + ": somebody wrote beside a buffer");
    std::vector<Bytes> found;
    for (const qr::Tensor &tensor : out) {
      const auto *const bytes = static_cast<const unsigned char *>(tensor.bytes());
      found.emplace_back(bytes, bytes + tensor.size_bytes);
    }
    return found;
  }
};

}  // namespace

int main(int count, char **arguments) {
  if (count < 5) return 2;
  Poison poison;
  const qr_allocator allocator = poison.allocator();
  int ran = 0, left_out = 0;
  {
    qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
    const qr::Runtime plain;
    options.allocator = &allocator;
    const qr::Runtime poisoned(options);
    for (int i = 4; i < count; ++i) {
      std::mt19937_64 random(std::strtoull(arguments[3], nullptr, 10));
      Case one{plain, arguments[1], arguments[i], {}};
      try {
        qr::Session first = one.session(1);
        bool known = true;
        for (const qr::TensorInfo &info : first.inputs()) {
          known = known && (info.size_bytes != 0 || std::count(info.dims.begin(), info.dims.end(), 0) != 0);
          one.inputs.push_back(random_values(info, random));
        }
        if (!known) {
          ++left_out;
          continue;
        }
        const std::vector<Bytes> expected = one.plain(first);
        const auto same = [&](const std::vector<Bytes> &found, const std::string &how) {
          if (found != expected) fault(one.path + ": other bits " + how);
        };
        same(one.plain(first), "in a second run");
        for (const unsigned threads : {2u, 3u, 5u, 8u}) {
          qr::Session session = one.session(threads);
          same(one.plain(session), "with " + std::to_string(threads) + " threads");
        }
        const Case other{poisoned, one.backend, one.path, one.inputs};
        for (const unsigned threads : {1u, 3u}) {
          qr::Session session = other.session(threads);
          same(other.plain(session), "in filled memory");
          for (int round = std::atoi(arguments[2]); round-- > 0;)
            same(other.fenced(session, random), "between fences, with " + std::to_string(threads) + " threads");
        }
        ++ran;
      } catch (const qr::Error &error) {
        // What cannot be run so is no matter of this program; that it says so each time is.
        ++left_out;
        if (error.id() == "QR-C0010") fault(one.path + ": " + error.what());
      }
    }
  }
  std::printf("%d models, %d left out, %d faults\n", ran, left_out, faults.load());
  return faults != 0 || ran == 0;
}
