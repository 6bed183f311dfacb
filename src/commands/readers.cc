#include "commands/readers.h"

#include <algorithm>
#include <utility>

#include "commands/walk.h"

namespace codecfs::commands {

Readers::Readers(Source& source, std::span<const Named> variables, OpenAgain open_again)
    : variables_(variables),
      open_again_(std::move(open_again)),
      first_{&source, nullptr, {}},
      free_{&first_},
      opens_(open_again_ != nullptr) {
  for (const Named& variable : variables) first_.objects.push_back(variable.object);
}

Readers::Lease Readers::take() {
  {
    const LockGuard lock(mutex_);
    if (!free_.empty()) {
      Reader& reader = *free_.back();
      free_.pop_back();
      return {*this, reader};
    }
    if (!opens_) return {*this, first_};  // it is thread-safe
  }
  std::unique_ptr<Reader> opened = open();
  const LockGuard lock(mutex_);
  if (opened == nullptr) {
    opens_ = false;
    return {*this, first_};
  }
  return {*this, *opened_.emplace_back(std::move(opened))};
}

void Readers::give_back(Reader& reader) {
  const LockGuard lock(mutex_);
  if (std::find(free_.begin(), free_.end(), &reader) == free_.end()) free_.push_back(&reader);
}

std::unique_ptr<Readers::Reader> Readers::open() {
  Result<std::unique_ptr<Source>> again = first_.source->open_twin();
  const bool is_twin = again.has_value();
  if (!is_twin) again = open_again_();
  if (!again) return nullptr;
  const struct stat& before = first_.source->status();
  const struct stat& now = (*again)->status();
  if (now.st_dev != before.st_dev || now.st_ino != before.st_ino) return nullptr;
  if (is_twin) {
    Source* const source = again->get();
    return std::make_unique<Reader>(source, *std::move(again), first_.objects);
  }
  auto reader = std::make_unique<Reader>(again->get(), nullptr, std::vector<ObjectId>());
  const Result<> walked = walk(
      *reader->source,
      [&](const std::string& path, const Entry& entry) -> Result<> {
        if (entry.kind != EntryKind::variable) return {};
        const size_t index = reader->objects.size();
        if (index == variables_.size() || variables_[index].path != path) return fail(ESTALE, "{}: is new", path);
        reader->objects.push_back(entry.object);
        return {};
      },
      [](const std::string&, const Error&) -> Result<> { return {}; });
  if (!walked || reader->objects.size() != variables_.size()) return nullptr;
  reader->owned = *std::move(again);
  return reader;
}

}  // namespace codecfs::commands
