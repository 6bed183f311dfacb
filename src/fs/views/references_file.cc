#include "fs/views/references_file.h"

#include <sys/stat.h>

#include <utility>

namespace codecfs::fs {

bool ReferencesFile::exists() const {
  return mount_.options.make_references && S_ISREG(mount_.dataset.source().status().st_mode);
}

Result<Text> ReferencesFile::text() {
  const LockGuard one(making_);
  const uint64_t changes = mount_.changes();
  if (mount_.chunks.write_back.has_unstored())
    return fail(EBUSY, "/.codecfs/references.json: changes wait to be stored; unmount first");
  if (Text held = last_.lock(); held && changes_ == changes) return held;
  Result<std::string> made = mount_.options.make_references(mount_.dataset.source());
  if (!made) return fail(made.error().code, "/.codecfs/references.json: {}", made.error().reason);
  if (mount_.chunks.write_back.has_unstored() || mount_.changes() != changes)
    return fail(EBUSY, "/.codecfs/references.json: the dataset was changed while it was read");
  Text text = std::make_shared<const std::string>(*std::move(made));
  last_ = text;
  changes_ = changes;
  size_ = text->size();
  return text;
}

}  // namespace codecfs::fs
