#include "remote/object_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "base/interruption.h"
#include "base/log.h"
#include "remote/absence_check.h"
#include "remote/dialect.h"
#include "remote/object_requests.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

bool read_number(std::string_view& text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t total = 0;
};

/// "bytes 0-99/1234".
std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  if (!read_number(text, range.first) || !text.starts_with('-')) return std::nullopt;
  text.remove_prefix(1);
  if (!read_number(text, range.last) || !text.starts_with('/')) return std::nullopt;
  text.remove_prefix(1);
  if (!read_number(text, range.total) || !text.empty()) return std::nullopt;
  return range.first <= range.last && range.last < range.total ? std::optional(range) : std::nullopt;
}

Result<> check_range(const HttpResponse& response, const ObjectRange& asked) {
  const auto range = parse_content_range(response.header("content-range"));
  if (!range) return fail(EIO, "the server does not say which part of the object it sends");
  const uint64_t first = asked.is_at_end ? range->total - std::min(asked.size, range->total) : asked.offset;
  const uint64_t last = asked.is_at_end ? range->total - 1 : std::min(asked.offset + asked.size, range->total) - 1;
  if (range->first != first || range->last != last)
    return fail(EIO, "the server sent bytes {} to {} instead of {} to {}", range->first, range->last, first, last);
  if (response.body.size() != range->last - range->first + 1)
    return fail(EIO, "the server sent {} bytes instead of {}", response.body.size(), range->last - range->first + 1);
  return {};
}

constexpr int kEndAttempts = 3;  // to read the end of an object that is replaced meanwhile

class RealClient final : public ObjectClient {
 public:
  explicit RealClient(std::unique_ptr<ObjectRequests> requests) : requests_(std::move(requests)) {}

  [[nodiscard]] std::string key_of(const std::string& prefix, const std::string& name) const override {
    return dialect().key_of(prefix, name);
  }

  Result<std::optional<ObjectPart>> get(const std::string& key, std::optional<ObjectRange> range, uint64_t limit,
                                        const std::string& etag) override {
    return get_part(key, range, limit, etag, {});
  }

  Result<std::optional<ObjectPart>> get_if_changed(const std::string& key, const ObjectRange& range,
                                                   const std::string& etag) override {
    return get_part(key, range, range.size, {}, is_strong_etag(etag) ? etag : std::string());
  }

  [[nodiscard]] std::string identity_of(const std::string& key) const override { return dialect().identity_of(key); }

  Result<ObjectList> list(const std::string& prefix, bool delimited, const std::string& token) override {
    ObjectRequest request{.listed = prefix, .max_body = uint64_t{16} << 20};
    CODECFS_ASSIGN(request.query, dialect().list_query(prefix, delimited, token));
    std::optional<ObjectList> list;
    request.check = [&](const HttpResponse& response) -> Result<> {
      CODECFS_ASSIGN(list, dialect().parse_list(
                               {reinterpret_cast<const char*>(response.body.data()), response.body.size()}, prefix));
      if (!list->next.empty() && list->next == token) return fail(EIO, "the list of objects repeats itself");
      return {};
    };
    CODECFS_ASSIGN(const ObjectResponse response, requests_->send(request));
    if (!list)
      return fail(EIO, "{}: the server answers a request for a list with status {}", name(prefix),
                  response.http.status);
    return std::move(*list);
  }

  Result<std::string> put(const std::string& key, Bytes content, const WriteCondition& condition) override {
    ObjectRequest request{.method = "PUT", .key = key, .headers = dialect().put_headers(), .body = content};
    if (condition.is_new) request.headers.push_back(dialect().header_of(Condition::is_new, {}));
    if (!condition.etag.empty() && !dialect().can_be_condition_of_write(condition.etag))
      return fail(EOPNOTSUPP, "{}: the server gives it no ETag that could be a condition of a write", name(key));
    if (!condition.etag.empty())
      request.headers.push_back(dialect().header_of(
          Condition::is_same, unquoted_in_put_ ? std::string(unquoted(condition.etag)) : condition.etag));
    CODECFS_ASSIGN(const ObjectResponse response, requests_->send(request));
    if (response.is_absent) return fail(ESTALE, "{}: there is no such object any more", name(key));
    if (response.is_unmet) {
      CODECFS_ASSIGN(auto etag, etag_if_stored(key, content, response.is_repeated));
      if (etag) return *std::move(etag);
      return condition.is_new ? fail(EEXIST, "{}: exists", name(key))
                              : fail(ESTALE, "{}: was changed by another program", name(key));
    }
    CODECFS_TRY(check_done(key, response));
    return dialect().etag_of(response.http);
  }

  Result<> check_conditions(const std::string& key) override {
    const Result<> checked = try_conditions(key);
    if (const Result<> removed = remove(key); !removed && checked)
      log::warning("an object that was made to try the server was left behind: {}", removed.error().reason);
    return checked;
  }

  Result<> remove(const std::string& key) override {
    CODECFS_ASSIGN(const ObjectResponse response, requests_->send({.method = "DELETE", .key = key}));
    return response.is_absent ? Result<>() : check_done(key, response);
  }

  void rely_on(const std::string& key, const ObjectPart& part) override { absence_.rely_on(key, part); }
  Result<> confirm_absences() override { return absence_.confirm({AbsenceCheck::Clock::now()}); }

  [[nodiscard]] RequestStatistics& statistics() const override { return requests_->statistics(); }

 private:
  /// `known`: the ETag that need not be sent again; empty: none.
  Result<std::optional<ObjectPart>> get_part(const std::string& key, std::optional<ObjectRange> range, uint64_t limit,
                                             const std::string& etag, const std::string& known) {
    if (range && range->is_at_end && !dialect().has_suffix_ranges()) return get_end(key, range->size, etag, known);
    ObjectRequest request{.key = key, .max_body = range ? range->size : limit};
    if (!known.empty()) request.headers.push_back(dialect().header_of(Condition::has_changed, known));
    if (range) {
      request.headers.push_back(
          {"Range", range->is_at_end ? fmt::format("bytes=-{}", range->size)
                                     : fmt::format("bytes={}-{}", range->offset, range->offset + range->size - 1)});
      request.check = [&](const HttpResponse& response) {
        return response.status == 206 ? check_range(response, *range) : Result<>();
      };
    }
    auto response = get_if_match(request, etag);
    if (!response && response.error().code == EFBIG && range)
      return fail(EOPNOTSUPP, "{}: the server sends more than the part of the object that was asked for", name(key));
    if (!response) return pass_on(response);
    HttpResponse& http = response->http;
    if (response->is_absent) {
      if (requests_->must_be_confirmed(*response)) CODECFS_TRY(confirm_absence(key, http));
      return std::nullopt;
    }
    if (response->is_unmet) return replaced(key);
    switch (http.status) {
      case 304: {
        if (!dialect().says_unchanged(http, known)) return get_part(key, range, limit, etag, {});
        ObjectPart unchanged;
        unchanged.etag = known;
        return unchanged;
      }
      case 416: return part_after_end(key, http, etag);
      case 200:
      case 206: break;
      default: return fail(EIO, "{}: the server answers a request for content with status {}", name(key), http.status);
    }
    ObjectPart part;
    const auto sent = http.status == 206 ? parse_content_range(http.header("content-range")) : std::nullopt;
    if (range && !sent && (range->offset != 0 || (range->is_at_end && http.body.size() > range->size)))
      return fail(EOPNOTSUPP, "{}: the server does not send parts of objects", name(key));
    part.total = sent ? sent->total : http.body.size();
    part.etag = dialect().version_of(http, part.total);
    part.md5 = dialect().md5_of(http);
    // An answer that does not say its state may be of another one.
    const bool says_state = is_strong_etag(etag) || !part.etag.empty();
    if (!etag.empty() && says_state && unquoted(part.etag) != unquoted(etag)) return replaced(key);
    if (const time_t time = ::curl_getdate(std::string(http.header("last-modified")).c_str(), nullptr); time > 0)
      part.modified = time;
    part.bytes = std::move(http.body);
    if (range && part.bytes.size() > range->size) part.bytes.truncate(range->size);
    return part;
  }

  /// The last `size` bytes, from a server that must be told where they begin.
  Result<std::optional<ObjectPart>> get_end(const std::string& key, uint64_t size, const std::string& etag,
                                            const std::string& known) {
    for (int attempt = 1;; ++attempt) {
      CODECFS_ASSIGN(auto first, get_part(key, ObjectRange{0, 1}, 1, etag, known));
      if (!first || first->bytes.size() == 0) return first;
      const uint64_t bytes = std::min(size, first->total);
      auto end = get_part(key, ObjectRange{first->total - bytes, bytes}, bytes, first->etag, {});
      const bool was_replaced = !end && end.error().code == ESTALE;
      if (!was_replaced || !etag.empty() || attempt == kEndAttempts) return end;
    }
  }

  Result<> confirm_absence(const std::string& key, const HttpResponse& http) {
    const Result<> confirmed = absence_.confirm({AbsenceCheck::Clock::now(), http.redirected_to});
    if (confirmed || confirmed.error().code == EINTR) return confirmed;
    return fail(confirmed.error().code == EACCES ? EACCES : EIO,
                "{}: status {}, which is not taken for absent, as the server may not have the store now: {}", name(key),
                http.status, confirmed.error().reason);
  }

  /// Whether a change has taken place.
  [[nodiscard]] Result<> check_done(const std::string& key, const ObjectResponse& response) const {
    if (response.http.status < 300) return {};
    return fail(EIO, "{}: the server answers a change with status {}", name(key), response.http.status);
  }

  /// After a refusal: the ETag of the object if it has this content. An attempt whose answer was lost may have been the
  /// one that changed it; libcurl repeats some itself, when a connection that was used before has ended.
  Result<std::optional<std::string>> etag_if_stored(const std::string& key, Bytes content, bool is_repeated) {
    const Interruption::Scope scope(nullptr);  // an interrupted change would count as refused
    auto now = get(key, ObjectRange{0, 1}, 1, {});
    if (!now && is_repeated) return pass_on(now);
    if (!now || !*now) return std::nullopt;
    if ((*now)->md5 == md5_hex(content)) return std::move((*now)->etag);
    // The ETag of an encrypted object is another one.
    if (!is_repeated || content.empty() || (*now)->total != content.size()) return std::nullopt;
    CODECFS_ASSIGN(auto whole, get(key, ObjectRange{0, content.size()}, content.size(), {}));
    if (!whole || !std::ranges::equal(whole->bytes.bytes(), content)) return std::nullopt;
    return std::move(whole->etag);
  }

  /// A different content each time, so that the ETags differ.
  Result<> try_conditions(const std::string& key) {
    const auto try_put = [&](std::string_view text, const WriteCondition& condition) {
      return put(key, std::as_bytes(std::span(text)), condition);
    };
    const auto refused = [&](const Result<std::string>& etag, int code) -> Result<> {
      if (!etag && etag.error().code == code) return {};
      if (!etag) return std::unexpected(etag.error());
      return fail(EOPNOTSUPP,
                  "{}: the server ignores the conditions of writes, so programs that write at the same time would lose "
                  "each other's changes: only whole chunks can be written",
                  name(""));
    };
    const std::string other = dialect().etag_of_none();
    CODECFS_ASSIGN(std::string etag, try_put("first", {.is_new = true, .etag = {}}));
    CODECFS_TRY(refused(try_put("second", {.is_new = true, .etag = {}}), EEXIST));
    CODECFS_TRY(refused(try_put("third", {.is_new = false, .etag = other}), ESTALE));
    auto matching = try_put("fourth", {.is_new = false, .etag = etag});
    if (!matching && matching.error().code == ESTALE && dialect().may_want_unquoted_etags() && unquoted(etag) != etag) {
      // Ceph 16
      unquoted_in_put_ = true;
      CODECFS_TRY(refused(try_put("third", {.is_new = false, .etag = other}), ESTALE));
      matching = try_put("fourth", {.is_new = false, .etag = etag});
    }
    if (matching) return {};
    if (matching.error().code != ESTALE) return pass_on(matching);
    return fail(EOPNOTSUPP, "{}: the server refuses writes on the condition that the object is unchanged, though it is",
                name(""));
  }

  [[nodiscard]] const Dialect& dialect() const { return requests_->dialect(); }
  [[nodiscard]] std::string name(const std::string& key) const { return requests_->name_of(key); }
  [[nodiscard]] std::unexpected<Error> replaced(const std::string& key) const {
    return fail(ESTALE, "{}: the object was replaced since it was opened", name(key));
  }

  /// Ceph 16 compares If-Match with the ETag without its quotes.
  Result<ObjectResponse> get_if_match(ObjectRequest& request, const std::string& etag) {
    if (!is_strong_etag(etag)) return requests_->send(request);
    const size_t at = request.headers.size();
    request.headers.push_back(dialect().header_of(Condition::is_same, unquoted_ ? std::string(unquoted(etag)) : etag));
    CODECFS_ASSIGN(ObjectResponse response, requests_->send(request));
    if (!response.is_unmet || unquoted_ || !dialect().may_want_unquoted_etags() || unquoted(etag) == etag)
      return response;
    request.headers[at].value = unquoted(etag);
    CODECFS_ASSIGN(ObjectResponse second, requests_->send(request));
    if (second.http.status < 300) unquoted_ = true;
    return second;
  }

  Result<std::optional<ObjectPart>> part_after_end(const std::string& key, const HttpResponse& response,
                                                   const std::string& etag) const {
    std::string_view text = response.header("content-range");
    ObjectPart part;
    if (text.starts_with("bytes */")) text.remove_prefix(8);
    if (!read_number(text, part.total)) part.total = 0;
    part.etag = dialect().etag_of(response);
    if (!etag.empty() && !part.etag.empty() && unquoted(part.etag) != unquoted(etag)) return replaced(key);
    return part;
  }

  const std::unique_ptr<ObjectRequests> requests_;
  AbsenceCheck absence_{*requests_};
  std::atomic<bool> unquoted_ = false;  // in If-Match of GET
  std::atomic<bool> unquoted_in_put_ = false;
};

}  // namespace

bool is_strong_etag(std::string_view etag) {
  return !etag.empty() && !etag.starts_with('~') && !etag.starts_with("W/");
}

Result<std::unique_ptr<ObjectClient>> ObjectClient::make(const ObjectUrl& url, const ObjectOptions& options) {
  CODECFS_ASSIGN(auto requests, ObjectRequests::make(url, options));
  return std::make_unique<RealClient>(std::move(requests));
}

}  // namespace codecfs::remote
