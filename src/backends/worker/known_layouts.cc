#include "backends/worker/known_layouts.h"

namespace codecfs::worker {

Result<KnownLayouts::Present> KnownLayouts::ask(ObjectId variable) {
  CODECFS_ASSIGN(hdf5::IsolatedSource::Layout found, client_.call<&hdf5::IsolatedSource::layout>(variable));
  const Pointer made = std::make_shared<const Named>(std::move(found.name), hdf5::ChunkLayout(std::move(found.facts)));
  layouts_.put(found.number, made);
  return Present{found.number, found.is_direct, made};
}

Result<KnownLayouts::Pointer> KnownLayouts::numbered(ObjectId variable, uint64_t number) {
  if (auto known = layouts_.get(number)) return known;
  CODECFS_ASSIGN(const Present present, ask(variable));
  return present.number == number ? present.layout : nullptr;
}

Result<KnownLayouts::Pointer> KnownLayouts::for_writing(ObjectId variable, uint64_t changes) {
  if (const auto known = encoders_.get(variable); known && known->first == changes) return known->second;
  CODECFS_ASSIGN(const Present present, ask(variable));
  const filters::Pipeline* const pipeline = present.layout->second.pipeline();
  const bool encodes = present.is_direct && pipeline != nullptr && !pipeline->empty();
  Pointer layout = encodes ? present.layout : nullptr;
  encoders_.put(variable, std::make_shared<const std::pair<uint64_t, Pointer>>(changes, layout));
  return layout;
}

}  // namespace codecfs::worker
