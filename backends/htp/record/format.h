// SPDX-License-Identifier: Apache-2.0
// A record of calls as a file (docs/formats/record.md): a head, then entries, each with its size and its sum. Numbers
// are little endian, of no alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace quarry::record {

static_assert(std::endian::native == std::endian::little, "records are written as memory has them");

constexpr char kMagic[8] = {'Q', 'R', 'R', 'E', 'C', 'O', 'R', 'D'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kKeepsWeights = 1;  // of Head::flags

struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t flags;
  std::uint32_t core[3], backend[3];  // versions of the library's interface
  char build[64];                     // the library's build id
  char quarry[32];                    // who wrote it
  std::uint64_t begun_s;              // since 1970
  std::uint64_t sum;                  // of all before it
};
static_assert(sizeof(Head) == 152);

enum class EntryKind : std::uint32_t {
  Bytes = 1,   // content that calls name by its number: the first is 1
  Call = 2,    // written before the library is called
  Return = 3,  // and when it has returned
  Notice = 4,  // a callback of a call that goes on behind its return
  Line = 5,    // what the library said
};
struct EntryHead {
  std::uint32_t kind;
  std::uint32_t reserved;
  std::uint64_t size;  // of the content, which follows
  std::uint64_t sum;   // of kind, size and the content
};
static_assert(sizeof(EntryHead) == 24);

// What the content of a call's entries begins with.
struct CallHead {
  std::uint64_t call;      // its number: the first is 1
  std::uint64_t time_ns;   // since the record began
  std::uint32_t thread;    // the system's number
  std::uint32_t function;  // a row of calls.inc; of a Return and a Notice too
  std::uint32_t flags;
  std::uint32_t level;  // of a Line
  std::uint64_t code;   // of a Return: what the library returned; of a Notice: what it reported
};
static_assert(sizeof(CallHead) == 40);
constexpr std::uint32_t kPartly = 1;  // of CallHead::flags: an argument is of a kind that records have not

// What the content of Bytes begins with.
struct BytesHead {
  std::uint64_t size, sum;
  std::uint64_t kept;  // 1: they follow; 0: they were left out
};
static_assert(sizeof(BytesHead) == 24);

}  // namespace quarry::record
