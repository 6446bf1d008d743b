// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/qnn/live.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace standin {
namespace {

using quarry::qnn::Handle;

struct Object {
  const char *what;
  Handle in;
  bool is_busy = false;
};
struct All {
  std::mutex mutex;
  std::map<Handle, Object> objects;
};
All &all() {
  static All *const made = new All;  // the library is never closed
  return *made;
}

[[noreturn]] void misused(const char *call, Handle object, const char *how) {
  std::fprintf(stderr, "stand-in: %s: %p %s\n", call, object, how);
  std::abort();
}
Object &find(Handle object, const char *call) {
  const auto found = all().objects.find(object);
  if (found == all().objects.end()) misused(call, object, "is no object, or one that has ended");
  return found->second;
}

}  // namespace

void born(Handle object, const char *what, Handle in) {
  const std::lock_guard lock(all().mutex);
  if (in) find(in, what);
  all().objects[object] = {what, in};
}
void dies(Handle object, const char *call) {
  const std::lock_guard lock(all().mutex);
  if (find(object, call).is_busy) misused(call, object, "is used by another call");
  for (const auto &[other, about] : all().objects)
    if (about.in == object) misused(call, other, "lives in what ends");
  all().objects.erase(object);
}
void must_live(Handle object, const char *call) {
  const std::lock_guard lock(all().mutex);
  find(object, call);
}

Inside::Inside(Handle object, const char *call) : object_(object) {
  const std::lock_guard lock(all().mutex);
  Object &found = find(object, call);
  if (found.is_busy) misused(call, object, "is used by another call");
  found.is_busy = true;
}
Inside::~Inside() {
  const std::lock_guard lock(all().mutex);
  const auto found = all().objects.find(object_);
  if (found != all().objects.end()) found->second.is_busy = false;
}

}  // namespace standin
