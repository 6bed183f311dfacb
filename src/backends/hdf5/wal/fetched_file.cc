#include "backends/hdf5/wal/fetched_file.h"

#include <utility>

namespace codecfs::hdf5 {
namespace {

thread_local std::optional<Error> fetch_failure;

}  // namespace

void note_fetch_failure(const Error& error) {
  if (!fetch_failure) fetch_failure = error;
}

bool has_fetch_failure() { return fetch_failure.has_value(); }

std::optional<Error> take_fetch_failure() { return std::exchange(fetch_failure, std::nullopt); }

}  // namespace codecfs::hdf5
