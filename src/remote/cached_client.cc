#include "remote/cached_client.h"

#include <utility>

namespace codecfs::remote {
namespace {

class CachedClient final : public ObjectClient {
 public:
  CachedClient(std::shared_ptr<ObjectClient> client, std::shared_ptr<DiskCache> cache)
      : client_(std::move(client)), cache_(std::move(cache)) {}

  Result<std::optional<ObjectPart>> get(const std::string& key, std::optional<ObjectRange> range, uint64_t limit,
                                        const std::string& etag) override {
    if (!range) return client_->get(key, range, limit, etag);
    const std::string directory = client_->identity_of(key.substr(0, key.rfind('/') + 1));
    const std::string name = range->is_at_end ? fmt::format("last {} of {}", range->size, key)
                                              : fmt::format("{} at {} of {}", range->size, range->offset, key);
    auto kept = cache_->find_part(directory, name);
    if (kept && !etag.empty() && kept->etag == etag) {
      ++statistics().disk_hits;
      return kept;
    }
    const bool is_asked_for = kept && etag.empty();
    auto part = is_asked_for ? client_->get_if_changed(key, *range, kept->etag) : client_->get(key, range, limit, etag);
    if (!part || !*part) return part;
    const bool is_unchanged = is_asked_for && (*part)->bytes.size() == 0 && (*part)->etag == kept->etag;
    ++(is_unchanged ? statistics().disk_hits : statistics().disk_misses);
    if (is_unchanged) return kept;
    if (is_strong_etag((*part)->etag)) cache_->store_part(directory, name, **part);
    return part;
  }

  [[nodiscard]] std::string key_of(const std::string& prefix, const std::string& name) const override {
    return client_->key_of(prefix, name);
  }
  Result<std::optional<ObjectPart>> get_if_changed(const std::string& key, const ObjectRange& range,
                                                   const std::string& etag) override {
    return client_->get_if_changed(key, range, etag);
  }
  Result<ObjectList> list(const std::string& prefix, bool delimited, const std::string& token) override {
    return client_->list(prefix, delimited, token);
  }
  Result<std::string> put(const std::string& key, Bytes content, const WriteCondition& condition) override {
    return client_->put(key, content, condition);
  }
  Result<> check_conditions(const std::string& key) override { return client_->check_conditions(key); }
  Result<> remove(const std::string& key) override { return client_->remove(key); }
  void rely_on(const std::string& key, const ObjectPart& part) override { client_->rely_on(key, part); }
  Result<> confirm_absences() override { return client_->confirm_absences(); }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return client_->identity_of(key); }
  [[nodiscard]] RequestStatistics& statistics() const override { return client_->statistics(); }

 private:
  const std::shared_ptr<ObjectClient> client_;
  const std::shared_ptr<DiskCache> cache_;
};

}  // namespace

std::shared_ptr<ObjectClient> with_disk_cache(std::shared_ptr<ObjectClient> client, std::shared_ptr<DiskCache> cache) {
  return std::make_shared<CachedClient>(std::move(client), std::move(cache));
}

}  // namespace codecfs::remote
