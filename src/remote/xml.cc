#include "remote/xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/ascii.h"

namespace codecfs::remote {
namespace {

struct XmlParserDeleter {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};
using XmlParser = std::unique_ptr<std::remove_pointer_t<XML_Parser>, XmlParserDeleter>;

class XmlTreeBuilder {
 public:
  explicit XmlTreeBuilder(XML_Parser parser) : parser_(parser) {
    XML_SetUserData(parser, this);
    XML_SetElementHandler(
        parser, [](void* self, const char* name, const char**) { of(self).begin(name); },
        [](void* self, const char*) { of(self).end(); });
    XML_SetCharacterDataHandler(
        parser, [](void* self, const char* text, int size) { of(self).append({text, static_cast<size_t>(size)}); });
    XML_SetStartDoctypeDeclHandler(parser, [](void* self, const char*, const char*, const char*, int) {
      of(self).stop({EINVAL, "it declares a document type"});
    });
  }

  std::optional<Error> error;
  XmlElement root;

 private:
  static XmlTreeBuilder& of(void* self) { return *static_cast<XmlTreeBuilder*>(self); }

  // expat may call handlers once more after the stop.
  void stop(Error reason) {
    if (error) return;
    error = std::move(reason);
    XML_StopParser(parser_, XML_FALSE);
  }

  void begin(std::string_view name) {
    if (error) return;
    if (open_.size() == kMaxXmlDepth) return stop({EFBIG, "its elements are nested too deeply"});
    if (++count_ > kMaxXmlElements) return stop({EFBIG, "it has too many elements"});
    if (const size_t colon = name.rfind(':'); colon != name.npos) name.remove_prefix(colon + 1);
    open_.push_back({.name = std::string(name), .text = {}, .children = {}});
  }

  void append(std::string_view text) {
    if (!error && !open_.empty()) open_.back().text += text;
  }

  void end() {
    if (error || open_.empty()) return;
    XmlElement ended = std::move(open_.back());
    open_.pop_back();
    if (!ended.children.empty() && ended.text.find_first_not_of(kAsciiSpaces) == std::string::npos) ended.text.clear();
    if (open_.empty()) {
      root = std::move(ended);
    } else {
      open_.back().children.push_back(std::move(ended));
    }
  }

  XML_Parser parser_;
  std::vector<XmlElement> open_;  // the path to the present element
  size_t count_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  const auto found = std::ranges::find(children, child_name, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::child_text(std::string_view child_name) const {
  const XmlElement* found = child(child_name);
  return found ? std::string_view(found->text) : std::string_view();
}

Result<XmlElement> parse_xml(std::string_view text) {
  if (text.size() > kMaxXmlBytes) return fail(EFBIG, "the XML has {} bytes, more than {}", text.size(), kMaxXmlBytes);
  const XmlParser parser(XML_ParserCreate(nullptr));
  if (!parser) return fail(ENOMEM, "no memory for an XML parser");
  XmlTreeBuilder builder(parser.get());
  const XML_Status status = XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (builder.error) return fail(builder.error->code, "the XML cannot be used: {}", builder.error->reason);
  if (status != XML_STATUS_OK) {
    return fail(EINVAL, "the XML is malformed in line {}: {}", XML_GetCurrentLineNumber(parser.get()),
                XML_ErrorString(XML_GetErrorCode(parser.get())));
  }
  return std::move(builder.root);
}

}  // namespace codecfs::remote
