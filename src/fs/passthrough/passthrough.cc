#include "fs/passthrough/passthrough.h"

#include <sys/stat.h>

namespace codecfs::fs {

class Passthrough::SourceFile final : public Backing {
 public:
  SourceFile(Passthrough& passthrough, int32_t id) : Backing(id), passthrough_(passthrough) {}
  ~SourceFile() override {
    if (!passthrough_.stopped_) passthrough_.device_->close(id());
  }
  [[nodiscard]] bool is_of_source() const override { return true; }

 private:
  Passthrough& passthrough_;
};

BackingPtr Passthrough::open_source(const PassableChunk& chunk) {
  if (!chunk.open_source || refuses_sources_) return nullptr;
  const Result<std::optional<UniqueFd>> file = chunk.open_source();
  struct stat status{};
  // A file of another size is damaged, or has changed: a READ request reports it.
  if (!file || !*file || fstat((*file)->get(), &status) != 0 || static_cast<uint64_t>(status.st_size) != chunk.bytes)
    return nullptr;
  const Result<int32_t> id = device_->open((*file)->get());
  if (!id) {
    refuses_sources_ = true;
    return nullptr;
  }
  return std::make_shared<const SourceFile>(*this, *id);
}

}  // namespace codecfs::fs
