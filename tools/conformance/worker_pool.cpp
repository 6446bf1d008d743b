// SPDX-License-Identifier: Apache-2.0
#include "tools/conformance/worker_pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "tools/console/failure.h"

namespace tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Worker {
  pid_t pid = -1;
  int to = -1, from = -1;
  int64_t job = -1;
  Clock::time_point since;
  std::string partial;
};

void write_all(int fd, const void *data, size_t size) {
  for (const char *at = static_cast<const char *>(data); size > 0;) {
    const ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the other side is gone; its death is seen elsewhere
    at += n, size -= static_cast<size_t>(n);
  }
}

Worker start(const std::function<std::string(uint64_t)> &job, const std::vector<Worker> &others) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) throw Failure("cannot make a pipe to a worker process: " + os_text(errno));
  Worker worker;
  worker.pid = fork();
  if (worker.pid < 0) throw Failure("cannot start a worker process: " + os_text(errno));
  if (worker.pid == 0) {
    for (const Worker &other : others)
      if (other.pid > 0) close(other.to), close(other.from);
    close(down[1]), close(up[0]);
    for (uint64_t index; read(down[0], &index, sizeof index) == static_cast<ssize_t>(sizeof index);) {
      std::string line = job(index);
      std::replace(line.begin(), line.end(), '\n', ' ');
      line += '\n';
      write_all(up[1], line.data(), line.size());
    }
    std::exit(0);  // with the leak checks of a sanitizer build
  }
  close(down[0]), close(up[1]);
  worker.to = down[1], worker.from = up[0];
  return worker;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return std::string("killed by signal ") + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
           ")";
  return "the process ended with status " + std::to_string(WEXITSTATUS(status));
}

using Job = std::function<std::string(uint64_t)>;
using Done = std::function<void(uint64_t, const std::string &, bool died)>;

class WorkerPool {
 public:
  WorkerPool(uint64_t count, int worker_count, double timeout_s, const Job &job, const Done &done)
      : count_(count),
        timeout_s_(timeout_s),
        job_(job),
        done_(done),
        workers_(std::min<uint64_t>(static_cast<uint64_t>(std::max(worker_count, 1)), std::max<uint64_t>(count, 1))) {}

  void run(const std::function<bool()> &stop) {
    while (finished_ < count_ && !stop()) {
      for (Worker &worker : workers_)
        if (worker.job < 0 && next_ < count_) give_job(worker);
      std::vector<pollfd> waits;
      for (const Worker &worker : workers_) waits.push_back({worker.job >= 0 ? worker.from : -1, POLLIN, 0});
      poll(waits.data(), waits.size(), 200);
      for (size_t w = 0; w < workers_.size(); ++w) {
        if (workers_[w].job < 0) continue;
        if (waits[w].revents) read_from(workers_[w]);
        else if (std::chrono::duration<double>(Clock::now() - workers_[w].since).count() > timeout_s_)
          give_up(workers_[w]);
      }
    }
    for (Worker &worker : workers_) {
      if (worker.pid <= 0) continue;
      if (worker.job >= 0) kill(worker.pid, SIGKILL);  // stopped amid its job
      retire(worker);
    }
  }

 private:
  void give_job(Worker &worker) {
    if (worker.pid < 0) worker = start(job_, workers_);
    worker.job = static_cast<int64_t>(next_++);
    worker.since = Clock::now();
    const uint64_t index = static_cast<uint64_t>(worker.job);
    write_all(worker.to, &index, sizeof index);
  }

  void read_from(Worker &worker) {
    char buffer[65536];
    const ssize_t n = read(worker.from, buffer, sizeof buffer);
    if (n > 0) worker.partial.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno == EINTR) return;
    const size_t end = worker.partial.find('\n');
    const uint64_t index = static_cast<uint64_t>(worker.job);
    if (end != std::string::npos) {
      done_(index, worker.partial.substr(0, end), false);
      worker.partial.erase(0, end + 1);
      worker.job = -1;
      ++finished_;
    } else if (n <= 0) {
      done_(index, how_it_ended(retire(worker)), true);
      ++finished_;
    }
  }

  void give_up(Worker &worker) {
    const uint64_t index = static_cast<uint64_t>(worker.job);
    kill(worker.pid, SIGKILL);
    retire(worker);
    done_(index, "took longer than " + std::to_string(static_cast<long>(timeout_s_)) + " s", true);
    ++finished_;
  }

  static int retire(Worker &worker) {
    close(worker.to), close(worker.from);
    int status = 0;
    waitpid(worker.pid, &status, 0);
    worker = Worker{};
    return status;
  }

  const uint64_t count_;
  const double timeout_s_;
  const Job &job_;
  const Done &done_;
  std::vector<Worker> workers_;
  uint64_t next_ = 0, finished_ = 0;
};

}  // namespace

void run_in_workers(uint64_t count, int worker_count, double timeout_s, const std::function<std::string(uint64_t)> &job,
                    const std::function<void(uint64_t, const std::string &, bool died)> &done,
                    const std::function<bool()> &stop) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  WorkerPool(count, worker_count, timeout_s, job, done).run(stop);
  sigaction(SIGPIPE, &before, nullptr);
}

}  // namespace tools
