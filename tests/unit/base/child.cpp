// SPDX-License-Identifier: Apache-2.0
// The program that test_os_everywhere.cpp starts: says over the stream (3) what its words are and what descriptor 4
// holds, and does at the end what its first word says.
#include <chrono>
#include <string>
#include <thread>

#include "base/os/child_process.h"
#include "base/os/file.h"
#include "base/os/process.h"

int main(int count, char **given) {
  using namespace quarry;
  const auto words = os::program_words(count, given);
  if (words.size() < 2 || !os::begin_as_child(3)) return 2;
  const std::string_view order = words[1];
  std::string told;
  for (std::size_t i = 2; i < words.size(); ++i) (told += words[i]) += "|";
  os::FileInfo info;
  if (os::get_info(4, &info)) {
    std::string content(info.size, ' ');
    if (os::read_at(4, content.data(), content.size(), 0) == 0) told += content;
  }
  os::send(3, told.data(), told.size());
  if (order == "wait") os::await_end(3);
  if (order == "stay") std::this_thread::sleep_for(std::chrono::seconds(60));
  if (order == "much") {
    const std::string much(1 << 20, 'x');
    os::send(3, much.data(), much.size());
  }
  os::end_process(7);
}
