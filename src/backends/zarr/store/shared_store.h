#pragma once
// Changes of the files of a store that other programs may write at the same time, as far as they are based on what is
// there: each takes place only if the file still has the state from which it was made. Thread-safe.

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "backends/zarr/store/store.h"
#include "backends/zarr/store/store_writer.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

class SharedStore {
 public:
  /// A state of a file.
  struct File {
    std::optional<Buffer> bytes;  // none: it does not exist
    std::string version;          // empty if it does not exist
  };

  virtual ~SharedStore() = default;

  /// EOPNOTSUPP with the reason if changes cannot depend on the state of a file, so that all functions that change a
  /// part of one fail; EACCES. Found out at the first call.
  virtual Result<> begin_updates() = 0;
  /// The file as it is now. EFBIG if it has more than `limit` bytes.
  virtual Result<File> read_now(const std::string& key, uint64_t limit) = 0;
  /// Opens the file as it is now, to read parts of it; null if it does not exist.
  virtual Result<std::shared_ptr<const StoredFile>> open_now(const std::string& key) = 0;
  /// Replaces the file of this version, empty: creates it. Returns its new version. EAGAIN if it has another version;
  /// nothing has changed then. ESTALE if a file of which parts are copied does.
  virtual Result<std::string> replace(const std::string& key, const std::string& version,
                                      std::span<const StorePart> parts) = 0;
  /// Reads consolidated metadata again, with the metadata files that were changed here since the last
  /// note_consolidated().
  virtual Result<> renew_consolidated() = 0;
  /// The consolidated metadata is up to date.
  virtual void note_consolidated() = 0;
  /// What was listed before is listed again.
  virtual void forget_lists() = 0;
  /// As forget_lists(). From now on, lists of an array have all its files, also those outside of its shape, which may
  /// be left out of other lists.
  virtual void list_all_of(const std::string& array) = 0;
};

/// Repeats a change that failed with EAGAIN, because another program was faster, for up to a minute: then EBUSY.
template <class Change>
auto repeat_change(Change change) -> decltype(change()) {
  constexpr std::chrono::seconds kLongest{60};
  constexpr unsigned kMaxWait = 100;  // ms
  const auto began = std::chrono::steady_clock::now();
  for (unsigned attempt = 1;; ++attempt) {
    auto done = change();
    if (done || done.error().code != EAGAIN) return done;
    if (std::chrono::steady_clock::now() - began > kLongest)
      return fail(EBUSY, "{}, again and again", done.error().reason);
    static thread_local std::minstd_rand random{std::random_device()()};
    if (attempt > 1) std::this_thread::sleep_for(std::chrono::milliseconds(random() % std::min(5 * attempt, kMaxWait)));
  }
}

}  // namespace codecfs::zarr
