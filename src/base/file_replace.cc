#include "base/file_replace.h"

#include "base/file_name.h"

namespace codecfs {

Result<> replace_file(FileIo& io, const File& directory, const NamedFile& by, const NamedFile& old) {
  CODECFS_TRY(check_name(directory, by.name, by.file));
  CODECFS_TRY(check_name(directory, old.name, old.file));
  const Result<> exchanged = io.exchange(directory, by.name, old.name);
  if (!exchanged && exchanged.error().code == EOPNOTSUPP) return io.rename(directory, by.name, old.name);
  CODECFS_TRY(exchanged);
  // The names are exchanged, not replaced, so that what another program has put there meanwhile is not lost.
  Result<> are_expected = check_name(directory, old.name, by.file);
  if (are_expected) are_expected = check_name(directory, by.name, old.file);
  if (!are_expected) {
    (void)io.exchange(directory, by.name, old.name);
    return are_expected;
  }
  (void)io.unlink(directory, by.name);  // if it is left behind, the next writer removes it
  return {};
}

Result<std::string> name_rescued(FileIo& io, const File& directory, const std::string& draft, const std::string& name) {
  for (unsigned number = 0;; ++number) {
    std::string rescued = rescued_name(name, number);
    const Result<> moved = io.move(directory, draft, directory, rescued);
    if (moved) return rescued;
    if (moved.error().code != EEXIST || number + 1 == kMaxRescues) return std::unexpected(moved.error());
  }
}

}  // namespace codecfs
