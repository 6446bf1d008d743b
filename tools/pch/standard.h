// SPDX-License-Identifier: Apache-2.0
// The standard headers that the libraries read everywhere, precompiled: reading them took up to half of the time to
// build a file. Files still include what they use.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
