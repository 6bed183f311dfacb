#include "remote/azure_list.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

std::string list_of(const std::string& blobs, const std::string& more = {}) {
  return "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://h/\" "
         "ContainerName=\"box\"><Prefix>a/</Prefix><Blobs>" +
         blobs + "</Blobs>" + more + "</EnumerationResults>";
}

TEST(AzureList, ReadsBlobsAndPrefixes) {
  const auto list = parse_azure_list(
      list_of("<Blob><Name>a/x+y%41é</Name><Properties><Last-Modified>Fri, 02 Jan 1970 00:00:01 GMT</Last-Modified>"
              "<Etag>0x8D1</Etag><Content-Length>12</Content-Length><ResourceType>file</ResourceType></Properties>"
              "<OrMetadata /></Blob><BlobPrefix><Name>a/b/</Name></BlobPrefix>",
              "<NextMarker>m</NextMarker>"),
      "a/");
  ASSERT_TRUE(list) << list.error().reason;
  ASSERT_EQ(list->objects.size(), 1U);
  EXPECT_EQ(list->objects[0].key, "a/x+y%41é") << "names are not encoded";
  EXPECT_EQ(list->objects[0].size, 12U);
  EXPECT_EQ(list->objects[0].etag, "\"0x8D1\"") << "as in headers";
  EXPECT_EQ(list->objects[0].modified, 86401);
  EXPECT_EQ(list->prefixes, std::vector<std::string>{"a/b/"});
  EXPECT_EQ(list->next, "m");
  EXPECT_EQ(parse_azure_list(list_of("", "<NextMarker />"), "a/").value().next, "");
}

TEST(AzureList, DirectoriesAreNoObjects) {
  const auto list = parse_azure_list(
      list_of("<Blob><Name>a/d</Name><Properties><Content-Length>0</Content-Length>"
              "<ResourceType>directory</ResourceType></Properties></Blob>"
              "<Blob><Name>a/e</Name><Properties><Content-Length>0</Content-Length></Properties>"
              "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>"
              "<Blob><Name>a/f</Name><Properties><Content-Length>0</Content-Length></Properties></Blob>"),
      "a/");
  ASSERT_EQ(list.value().objects.size(), 1U);
  EXPECT_EQ(list->objects[0].key, "a/f");
}

TEST(AzureList, RefusesWhatCannotBeRight) {
  const auto blob = [](const std::string& name, const std::string& size) {
    return "<Blob><Name>" + name + "</Name><Properties><Content-Length>" + size +
           "</Content-Length></Properties></Blob>";
  };
  ASSERT_TRUE(parse_azure_list(list_of(blob("a/x", "1")), "a/"));
  for (const std::string& text :
       {list_of(blob("b/x", "1")), list_of(blob("a/x", "-1")), list_of(blob("a/x", "")),
        list_of("<Blob><Name>a/x</Name></Blob>"), list_of(blob("", "1")),
        list_of("<BlobPrefix><Name>b/</Name></BlobPrefix>"), list_of(blob("a/" + std::string(5000, 'x'), "1")),
        std::string("<EnumerationResults></EnumerationResults>"), std::string("<ListBucketResult></ListBucketResult>"),
        std::string("<html>"), std::string()})
    EXPECT_EQ(parse_azure_list(text, "a/").error().code, EIO) << text.substr(0, 300);
}

}  // namespace
}  // namespace codecfs::remote
