// SPDX-License-Identifier: Apache-2.0
// Parts of files, and of memory that processes share, in this process's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry::os {

// Addresses and offsets of mappings are multiples of it.
std::size_t page_size() noexcept;

// Reading: whether later writes to the file are seen is not promised; a file that is cut meanwhile ends the process
// where a page that went is read. Writing: what is written goes to the file, or to who shares the memory.
enum class MappedFor : std::uint8_t { Reading, Writing };

// `offset` is a multiple of page_size(). nullptr: errno says why.
void *map_file(int fd, std::uint64_t offset, std::size_t size, MappedFor use) noexcept;
void unmap(void *base, std::size_t size) noexcept;
// Whole pages of a part of what is mapped for reading need not stay in this process's memory: who reads them again gets
// them from the file. Where a system has no such call, nothing happens.
void forget_pages(const void *data, std::size_t size) noexcept;

}  // namespace quarry::os
