#include "commands/workers.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/interruption.h"
#include "base/parallel.h"
#include "base/threads.h"

namespace codecfs::commands {

std::atomic<bool> interrupted = false;

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

Result<> in_parallel(uint64_t count, const std::function<Result<>(uint64_t number)>& work, size_t at_least) {
  const Interruption::Check check = [] { return interrupted.load(); };
  const Interruption::Scope scope(&check);
  Result<> done = parallel_for(count, {.threads = std::max(core_count(), at_least), .cancelled = check}, work);
  if (!done && done.error().code == EINTR && interrupted) return fail(ECANCELED, "interrupted");
  return done;
}

Result<> read_in_parallel(Source& source, std::span<const ChunkToRead> chunks,
                          const std::function<Result<>(uint64_t index)>& read) {
  const size_t at_once = source.reads_at_once();
  if (at_once == 0) return in_parallel(chunks.size(), read);
  constexpr size_t kAhead = 64;
  const auto expect = [&](size_t from) {
    std::vector<uint64_t> numbers;
    for (size_t i = from; i < std::min(chunks.size(), from + kAhead); ++i) {
      numbers.push_back(chunks[i].number);
      if (i + 1 < std::min(chunks.size(), from + kAhead) && chunks[i + 1].variable == chunks[i].variable) continue;
      (void)source.expect(chunks[i].variable, numbers);  // an error shows when they are read
      numbers.clear();
    }
  };
  expect(0);
  return in_parallel(
      chunks.size(),
      [&](uint64_t index) {
        if (index % kAhead == 0) expect(index + kAhead);
        return read(index);
      },
      at_once);
}

}  // namespace codecfs::commands
