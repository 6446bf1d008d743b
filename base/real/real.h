// SPDX-License-Identifier: Apache-2.0
// Functions of reals with the same bits on every system: those of C libraries differ in the last one. Each result is
// the true one rounded, but for about one or two in a thousand, which are beside it; an f32 made of it is the true one
// rounded. They are made of what IEEE 754 defines alone (+ - * / and the square root), the usual rounding being set.
#pragma once

#include <cmath>

namespace quarry::real {

#if defined(QR_SYSTEM_FUNCTIONS)  // a static library for size: who links it has the C library's already
using std::exp, std::expm1, std::log, std::log1p, std::log10, std::pow, std::sinh, std::cosh, std::tanh, std::asinh,
    std::acosh, std::atanh, std::sin, std::cos, std::tan, std::asin, std::acos, std::atan, std::erf;
#else
double exp(double x) noexcept;
double expm1(double x) noexcept;
double log(double x) noexcept;
double log1p(double x) noexcept;
double log10(double x) noexcept;
double pow(double x, double y) noexcept;
double sinh(double x) noexcept;
double cosh(double x) noexcept;
double tanh(double x) noexcept;
double asinh(double x) noexcept;
double acosh(double x) noexcept;
double atanh(double x) noexcept;
double sin(double x) noexcept;
double cos(double x) noexcept;
double tan(double x) noexcept;
double asin(double x) noexcept;
double acos(double x) noexcept;
double atan(double x) noexcept;
double erf(double x) noexcept;
#endif

}  // namespace quarry::real
