// SPDX-License-Identifier: Apache-2.0
// printf-style patterns for arguments of the types that they have: a 64-bit integer of any name for %lld, %llu and %zu,
// String for %s, std::string_view for %.*s. The compiler refuses a pattern that its arguments do not fit.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace quarry {
namespace detail {

template <class T>
concept OwnedText = requires(const T &text) {
  { text.c_str() } -> std::same_as<const char *>;
};
template <class T>
concept TextView = std::same_as<T, std::string_view>;

// What an argument is to a pattern.
struct Printed {
  enum class Kind : std::uint8_t { Integer, Real, Text, View, Pointer, None } kind;
  std::size_t size;

  // Of what stands behind '%' and its flags: `length` is one of h l L z (L: ll, j), or 0.
  constexpr bool fits(char length, char conversion) const {
    switch (conversion) {
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        const std::size_t wanted = length == 'L'   ? sizeof(long long)
                                   : length == 'z' ? sizeof(std::size_t)
                                   : length == 'l' ? sizeof(long)
                                                   : sizeof(int);
        return kind == Kind::Integer && (wanted == sizeof(int) ? size <= wanted : size == wanted);
      }
      case 'c': return kind == Kind::Integer && size <= sizeof(int);
      case 'e':
      case 'f':
      case 'g':
      case 'G':
      case 'a': return kind == Kind::Real;
      case 's': return kind == Kind::Text;
      case 'p': return kind == Kind::Pointer || kind == Kind::Text;
      default: return false;
    }
  }
};
template <class T>
constexpr Printed printed() {
  using Value = std::decay_t<T>;
  using Kind = Printed::Kind;
  if constexpr (TextView<Value>) return {Kind::View, 0};
  else if constexpr (OwnedText<Value> || std::is_convertible_v<Value, const char *>) return {Kind::Text, 0};
  else if constexpr (std::is_integral_v<Value>) return {Kind::Integer, sizeof(Value)};
  else if constexpr (std::is_floating_point_v<Value>) return {Kind::Real, 0};
  else if constexpr (std::is_pointer_v<Value>) return {Kind::Pointer, 0};
  else return {Kind::None, 0};
}

constexpr bool is_in(char c, const char *set) {
  for (; *set; ++set)
    if (*set == c) return true;
  return false;
}
// Whether the arguments are as many as the pattern wants, each of its kind and size.
constexpr bool fits_pattern(const char *text, const Printed *given, std::size_t count) {
  std::size_t used = 0;
  const auto next_fits = [&](char length, char conversion) {
    return used < count && given[used++].fits(length, conversion);
  };
  for (; *text; ++text) {
    if (*text != '%') continue;
    if (*++text == '%') continue;
    while (is_in(*text, "-+ #0")) ++text;
    const auto number = [&] {
      if (*text != '*') {
        while (*text >= '0' && *text <= '9') ++text;
        return false;
      }
      ++text;
      return true;
    };
    if (number() && !next_fits(0, 'd')) return false;
    if (*text == '.') {
      ++text;
      const bool starred = number();
      if (starred && *text == 's' && used < count && given[used].kind == Printed::Kind::View) {
        ++used;
        continue;
      }
      if (starred && !next_fits(0, 'd')) return false;
    }
    char length = 0;
    for (; is_in(*text, "hljzt"); ++text)
      length = *text == 'j' || (*text == 'l' && length == 'l') ? 'L' : *text == 't' ? 'z' : *text;
    if (!next_fits(length, *text)) return false;
  }
  return used == count;
}

// As a function with "..." takes them.
template <class T>
[[gnu::always_inline]] inline auto plain(const T &value) {
  if constexpr (OwnedText<T>) return value.c_str();
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return static_cast<std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>(value);
  else return static_cast<std::decay_t<const T &>>(value);
}
// Turns the first kLeft arguments over to the end, each as `call` takes it: a view as its size and its first byte.
template <std::size_t kLeft, class Call, class First, class... Rest>
[[gnu::always_inline]] inline auto turn_over(const Call &call, const First &first, const Rest &...rest) {
  if constexpr (kLeft == 0) return call(first, rest...);
  else if constexpr (TextView<First>)
    return turn_over<kLeft - 1>(call, rest..., static_cast<int>(first.size()), first.data());
  else return turn_over<kLeft - 1>(call, rest..., plain(first));
}

}  // namespace detail

template <class... A>
class PatternOf {
 public:
  template <std::size_t N>
  consteval PatternOf(const char (&text)[N]) : text_(text) {
    constexpr detail::Printed given[] = {detail::printed<A>()..., {detail::Printed::Kind::None, 0}};
    if (!detail::fits_pattern(text, given, sizeof...(A))) pattern_and_arguments_differ();
  }
  constexpr const char *text() const { return text_; }

 private:
  static void pattern_and_arguments_differ();  // no constant expression may call it: the compiler stops and names it
  const char *text_;
};
// In a parameter: the arguments' types come from the arguments.
template <class... A>
using Pattern = PatternOf<std::type_identity_t<A>...>;

// None of them is a view: each is one argument of a function with "...". What is called in many places asks this and
// passes them itself, which is less code than by call_with.
template <class... A>
inline constexpr bool are_plain = !(detail::TextView<A> || ...);

// Calls `call`, a function with "...", with the arguments as it takes them.
template <class Call, class... A>
[[gnu::always_inline]] inline auto call_with(const Call &call, const A &...arguments) {
  if constexpr (are_plain<A...>) return call(detail::plain(arguments)...);
  else return detail::turn_over<sizeof...(A)>(call, arguments...);
}

}  // namespace quarry
