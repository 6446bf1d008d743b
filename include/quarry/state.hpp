// SPDX-License-Identifier: Apache-2.0
// What a session keeps from run to run: qr_state for C++17 (state.h).
//
//   qr::Session session(model, &options);   // with the option "state"
//   qr::State state = session.state();
//   session.run(...);                        // and again
//   qr::State before = state.fork();         // to come back to: session.set_state(before)
//   state.rewind(state.length() - 3);
#ifndef QUARRY_STATE_HPP
#define QUARRY_STATE_HPP

#include <quarry/macros_off.hpp>
#include <quarry/result.hpp>
#include <quarry/target.hpp>
#include <quarry/tensor.hpp>

namespace qr {

class State : public Handle<qr_state, qr_state_destroy> {
 public:
  using Handle::Handle;
  State() noexcept = default;  // empty, to be assigned to
  std::uint64_t count() const noexcept { return qr_state_count(get()); }
  // Its strings live as long as the state.
  Result<qr_state_info> try_tensor(std::uint64_t index) const noexcept {
    return detail::ask(qr_state_info QR_STATE_INFO_INIT, qr_state_tensor, get(), index);
  }
  Result<std::uint64_t> try_length() const noexcept { return detail::ask(std::uint64_t{}, qr_state_length, get()); }
  Result<std::uint64_t> try_dropped() const noexcept { return detail::ask(std::uint64_t{}, qr_state_dropped, get()); }
  Status try_reset() noexcept { return Status(qr_state_reset(get())); }
  Status try_rewind(std::uint64_t length) noexcept { return Status(qr_state_rewind(get(), length)); }
  Result<State> try_fork() const noexcept { return detail::make<State>(qr_state_fork, get()); }
  Status try_save(const Target &target) const noexcept { return Status(qr_state_save(get(), target.c(), nullptr)); }
  Status try_load(const void *data, std::uint64_t size) noexcept { return Status(qr_state_load(get(), data, size)); }
  // Into the tensor's data; without data its shape and size alone are set.
  Status try_read(std::uint64_t index, Tensor &tensor) const noexcept {
    return Status(qr_state_read(get(), index, &tensor));
  }
  Status try_write(std::uint64_t index, const Tensor &tensor) noexcept {
    if (!tensor.ok()) return tensor.status();
    return Status(qr_state_write(get(), index, &tensor));
  }
#if QR_HAS_EXCEPTIONS
  qr_state_info tensor(std::uint64_t index) const { return try_tensor(index).value(); }
  std::uint64_t length() const { return try_length().value(); }
  std::uint64_t dropped() const { return try_dropped().value(); }
  void reset() { check(try_reset()); }
  void rewind(std::uint64_t length) { check(try_rewind(length)); }
  State fork() const { return try_fork().value(); }
  void save(const Target &target) const { check(try_save(target)); }
  void load(const void *data, std::uint64_t size) { check(try_load(data, size)); }
  void read(std::uint64_t index, Tensor &tensor) const { check(try_read(index, tensor)); }
  void write(std::uint64_t index, const Tensor &tensor) { check(try_write(index, tensor)); }
#endif
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
