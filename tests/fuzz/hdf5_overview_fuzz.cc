// Any bytes as an HDF5 file, described by the reader that does without libhdf5's objects: where it has an answer,
// libhdf5 must have the same one. A process that libhdf5 alone has crashed says nothing about it. As a replay it
// compares whole files, and CODECFS_COUNT_QUICK makes it print how many objects were described so.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/hdf5/source/isolated_source.h"
#include "backends/worker/calls.h"
#include "base/log.h"
#include "require.h"

namespace {

using namespace codecfs;

constexpr size_t kMaxEntries = 2000;
constexpr int kMaxDepth = 8;
constexpr unsigned kMaxSeconds = 10;

template <class T>
std::string encoded(const T& value) {
  rpc::Encoder out;
  out.put(value);
  return out.head;
}

void print(const char* from, const std::vector<Entry>& entries) {
  std::fprintf(stderr, "%s:", from);
  for (const Entry& entry : entries)
    std::fprintf(stderr, " %s (%d, object %llu%s%s)", entry.name.c_str(), static_cast<int>(entry.kind),
                 static_cast<unsigned long long>(entry.object), entry.target.empty() ? "" : " -> ",
                 entry.target.c_str());
  std::fprintf(stderr, "\n");
}

struct Comparison {
  hdf5::IsolatedSource& source;
  size_t seen = 0;
  size_t quick = 0;

  /// What libhdf5 says. summarize() leaves it to others to count the chunks of large grids.
  VariableSummary counted(ObjectId id) {
    VariableSummary known = summarize(source, id);
    if (known.is_counted || known.error) return known;
    for (uint64_t from = 0;;) {
      const auto numbers = source.stored_chunks(id, from, 1024);
      if (!numbers) return known;
      if (numbers->empty()) break;
      from = numbers->back() + 1;
      for (const uint64_t number : *numbers) {
        const auto chunk = source.locate(id, number);
        if (!chunk) return known;
        ++known.stored_chunks;
        known.stored_bytes += chunk->stored_size;
        if (chunk->filter_mask != 0) ++known.masked_chunks;
      }
    }
    known.is_counted = true;
    return known;
  }

  void variable(const Entry& entry) {
    ++seen;
    const auto found = source.quick_summary(entry.object);
    if (!found) return;
    ++quick;
    const VariableSummary known = counted(entry.object);
    if (encoded(*found) == encoded(known)) return;
    std::fprintf(
        stderr, "%s: %llu chunks of %llu bytes, by libhdf5 %llu of %llu%s%s\n", entry.name.c_str(),
        static_cast<unsigned long long>(found->stored_chunks), static_cast<unsigned long long>(found->stored_bytes),
        static_cast<unsigned long long>(known.stored_chunks), static_cast<unsigned long long>(known.stored_bytes),
        known.error ? ": " : "", known.error ? known.error->reason.c_str() : "");
    require(false, "libhdf5 has the same answer");
  }

  void group(ObjectId id, int depth) {
    const auto overview = source.overview(id);
    const auto entries = source.list(id);
    require(overview.has_value() == entries.has_value(), "libhdf5 lists the same groups");
    if (!overview) return;
    if (encoded(overview->entries) != encoded(*entries)) {
      print("the overview", overview->entries);
      print("libhdf5", *entries);
      require(false, "libhdf5 lists the same members");
    }
    for (const Entry& entry : *entries) {
      if (seen > kMaxEntries) return;
      if (entry.kind == EntryKind::variable) variable(entry);
      if (entry.kind == EntryKind::group && depth < kMaxDepth) group(entry.object, depth + 1);
    }
  }
};

std::unique_ptr<hdf5::IsolatedSource> opened(const std::string& path) {
  hdf5::IsolatedState state;
  state.shared = std::make_shared<hdf5::SharedState>();
  state.journal = UniqueFd(::memfd_create("journal", MFD_CLOEXEC));
  auto source = hdf5::open_isolated(path, false, std::move(state));
  return source ? *std::move(source) : nullptr;
}

void read_by_libhdf5(hdf5::IsolatedSource& source, ObjectId id, int depth, size_t& seen) {
  const auto entries = source.list(id);
  if (!entries) return;
  for (const Entry& entry : *entries) {
    if (++seen > kMaxEntries) return;
    if (entry.kind == EntryKind::variable) (void)summarize(source, entry.object);
    if (entry.kind == EntryKind::group && depth < kMaxDepth) read_by_libhdf5(source, entry.object, depth + 1, seen);
  }
}

/// Whether libhdf5, in a process of its own, reads all of a file without a crash.
bool survives(const std::string& path) {
  const pid_t child = ::fork();
  require(child >= 0, "a process");
  if (child == 0) {
    for (const int end : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGALRM}) ::signal(end, SIG_DFL);
    ::alarm(kMaxSeconds);
    size_t seen = 0;
    if (const auto source = opened(path)) read_by_libhdf5(*source, source->root().object, 0, seen);
    ::_exit(0);
  }
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);  // libFuzzer has a timer
  require(ended == child, "a process that has ended");
  return status == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = [] {
    log::set_level(log::Level::error);
    std::string name = std::filesystem::temp_directory_path() / "codecfs-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "a directory");
    return name + "/file.h5";
  }();
  {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    require(fd && ::write(fd.get(), data, size) == static_cast<ssize_t>(size), "a file");
  }
  if (!survives(path)) return 0;
  const auto source = opened(path);
  if (!source) return 0;
  Comparison comparison{*source};
  comparison.group(source->root().object, 0);
  if (std::getenv("CODECFS_COUNT_QUICK") != nullptr)
    std::printf("%zu of %zu variables\n", comparison.quick, comparison.seen);
  return 0;
}
