// SPDX-License-Identifier: Apache-2.0
// The compiler says for which API it compiles.
#pragma once
