#include "backends/hdf5/overview/file_window.h"

#include <algorithm>
#include <cstring>

namespace codecfs::hdf5 {

Result<const FileWindow::Page*> FileWindow::page(uint64_t number) {
  Page& page = pages_[number % pages_.size()];
  if (page.number == number) return &page;
  page.number = UINT64_MAX;
  page.bytes.resize(kPage);
  CODECFS_ASSIGN(const size_t size, read_(number * kPage, page.bytes));
  page.bytes.resize(size);
  page.number = number;
  return &page;
}

Result<> FileWindow::read(uint64_t offset, MutableBytes to) {
  const auto past_end = [] { return fail(EIO, "beyond the end of the file"); };
  if (offset > file_bytes_ || to.size() > file_bytes_ - offset) return past_end();
  while (!to.empty()) {
    CODECFS_ASSIGN(const Page* const found, page(offset / kPage));
    const size_t begin = offset % kPage;
    if (begin >= found->bytes.size()) return past_end();
    const size_t size = std::min(to.size(), found->bytes.size() - begin);
    std::memcpy(to.data(), found->bytes.data() + begin, size);
    offset += size;
    to = to.subspan(size);
  }
  return {};
}

}  // namespace codecfs::hdf5
