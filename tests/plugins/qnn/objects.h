// SPDX-License-Identifier: Apache-2.0
// The stand-in's objects behind its handles.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "backends/htp/qnn/function_table.h"
#include "backends/htp/qnn/htp_abi.h"
#include "tests/plugins/qnn/binary.h"

namespace standin {

struct Backend {
  std::atomic<std::uint32_t> ids{1};
};
struct Device {
  std::uint32_t soc = 30;
};
struct Context;
struct Graph : HeldGraph {
  Context *context = nullptr;
  bool finalized = false;
};
struct Context {
  Backend *backend = nullptr;
  std::uint32_t soc = 30;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::string binary;
  std::function<void()> release;  // gives back what the binary's provider gave
};
struct Signal {
  std::atomic<bool> triggered{false};
  std::uint64_t timeout_us = 0;
};
struct Memory {
  void *base = nullptr;
  std::size_t mapped = 0, offset = 0;
};
struct Event {
  qnn::EventData data{};
  std::string ident;
  std::vector<std::uint64_t> parts;
};
struct Profile {
  std::uint32_t level = 1;
  bool optrace = false;
  std::vector<std::uint64_t> roots;
};

// Writes down a list of configurations, each as "context.priority=200", "graph.custom 3=8".
void record_configs(const qnn::ContextConfig **list);
void record_configs(const qnn::GraphConfig **list);

// ---- profile.cpp
void fill_events(Profile &profile, const Graph &graph);
void fill_tables(qnn::Api &api);  // its own slots

// ---- memory.cpp
void fill_memory(qnn::Api &api);
// Where a tensor's value is; null: nowhere.
void *place_of(const qnn::Tensor &tensor);

// ---- power.cpp
void fill_power(qnn::Api &api);

}  // namespace standin
