#include "backends/hdf5/metadata/node_journal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string_view>

namespace codecfs::hdf5 {
namespace {

struct Head {
  uint64_t checksum = 0;  // of the rest of the head and the name
  uint64_t number = 0;
  uint64_t address = 0;
  uint64_t parent = 0;
  uint32_t name = 0;  // bytes
  uint32_t flags = 0;
};
constexpr uint32_t kGroup = 1;
constexpr uint32_t kGone = 2;

uint64_t checksum_of(Head head, std::string_view name) {
  head.checksum = 0;
  const std::string_view bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return std::hash<std::string_view>{}(bytes) * 31 + std::hash<std::string_view>{}(name) + 1;
}

}  // namespace

std::vector<std::pair<ObjectId, TreeNode>> NodeJournal::read() {
  std::vector<std::pair<ObjectId, TreeNode>> records;
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0 || status.st_size <= 0) return records;
  std::string all(static_cast<size_t>(status.st_size), '\0');
  const ssize_t count = ::pread(fd_.get(), all.data(), all.size(), 0);
  all.resize(count > 0 ? static_cast<size_t>(count) : 0);
  for (std::string_view rest(all); rest.size() >= sizeof(Head);) {
    Head head;
    std::memcpy(&head, rest.data(), sizeof head);
    if (head.name > rest.size() - sizeof head) break;
    const std::string_view name = rest.substr(sizeof head, head.name);
    if (head.checksum != checksum_of(head, name)) break;
    records.emplace_back(head.number, TreeNode{head.address, head.parent, std::string(name), (head.flags & kGroup) != 0,
                                               (head.flags & kGone) != 0});
    end_ += sizeof head + head.name;
    rest.remove_prefix(sizeof head + head.name);
  }
  return records;
}

void NodeJournal::truncate(uint64_t end) { (void)!::ftruncate(fd_.get(), static_cast<off_t>(end)); }

void NodeJournal::note(ObjectId number, const TreeNode& node) {
  Head head;
  head.number = number;
  head.address = node.address;
  head.parent = node.parent;
  head.name = static_cast<uint32_t>(node.name.size());
  head.flags = (node.group ? kGroup : 0) | (node.gone ? kGone : 0);
  head.checksum = checksum_of(head, node.name);
  pending_.append(reinterpret_cast<const char*>(&head), sizeof head);
  pending_ += node.name;
}

void NodeJournal::write() {
  if (pending_.empty()) return;
  const ssize_t count = ::pwrite(fd_.get(), pending_.data(), pending_.size(), static_cast<off_t>(end_));
  if (count == static_cast<ssize_t>(pending_.size())) end_ += pending_.size();
  pending_.clear();
}

}  // namespace codecfs::hdf5
