#include "commands/overview/page_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <span>

#include "base/file_io.h"
#include "base/file_name.h"
#include "commands/copy_access.h"
#include "commands/partial.h"

namespace codecfs::commands::overview {

Result<> check_page_file(const std::string& path) {
  struct stat status{};
  if (path == "-" || lstat(path.c_str(), &status) != 0) return {};
  const auto refused = [&] {
    return fail(EEXIST, "{}: exists and is no page of codecfs info; choose another name", path);
  };
  if (!S_ISREG(status.st_mode)) return refused();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno(errno, "{}", path);
  std::array<char, 256> begin{};
  CODECFS_ASSIGN(const size_t size, read_at(fd.get(), path, 0, std::as_writable_bytes(std::span(begin))));
  const std::string_view text(begin.data(), size);
  if (!text.starts_with("<!DOCTYPE html>") || text.find("name=\"generator\" content=\"codecfs ") == text.npos)
    return refused();
  return {};
}

Result<> write_page_file(const std::string& path, std::string_view page, const std::string& source) {
  CODECFS_TRY(check_page_file(path));
  const auto [directory_path, name] = split_path(path);
  CODECFS_ASSIGN(const File directory, open_directory(directory_path));
  const std::string partial = fitted_name("", name, ".codecfs-partial");
  FileIo& io = real_file_io();
  (void)io.unlink(directory, partial);  // left by a process that was killed
  CODECFS_ASSIGN(const File file, io.create(directory, partial, S_IRUSR | S_IWUSR));
  Result<> done = io.write(file, 0, std::as_bytes(std::span(page)));
  if (done) done = open_to_readers(directory_path + "/" + partial, source);
  if (done) done = io.rename(directory, partial, name);
  if (!done) (void)io.unlink(directory, partial);
  return done;
}

}  // namespace codecfs::commands::overview
