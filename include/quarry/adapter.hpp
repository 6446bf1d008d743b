// SPDX-License-Identifier: Apache-2.0
// Low-rank updates of weights: qr_adapter for C++17 (adapter.h).
//
//   qr::Session session(model, &options);   // with the option "adapter.targets"
//   qr::Adapter poems = session.open_adapter(qr::source_at("poems/adapter_model.safetensors"));
//   session.set_adapter(poems);              // for the runs from now on
//   session.remove_adapter();
#ifndef QUARRY_ADAPTER_HPP
#define QUARRY_ADAPTER_HPP

#include <quarry/macros_off.hpp>
#include <quarry/adapter.h>
#include <quarry/result.hpp>

namespace qr {

class Adapter : public Handle<qr_adapter, qr_adapter_destroy> {
 public:
  using Handle::Handle;
  Adapter() noexcept = default;  // empty, to be assigned to
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
