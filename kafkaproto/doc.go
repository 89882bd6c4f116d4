// Package kafkaproto is what this project knows of the Kafka protocol beyond the messages themselves (kmsg): frames
// and headers, which APIs and versions are served and by whom, checks of request bodies before they are decoded, and
// a view of record batches.
//
// A frame, all integers big-endian:
//
//	offset  size  field
//	0       4     size of what follows
//	4       2     api key
//	6       2     api version
//	8       4     correlation id
//	12      2+n   client id, nullable string (length -1: null)
//	              tagged fields, if the request's header is flexible
//	              body
//
// A response: size, correlation id, tagged fields if its header is flexible (never for ApiVersions), body.
//
// The page docs/apis.md is generated from the table.
package kafkaproto
