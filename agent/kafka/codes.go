package kafka

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errorCodes gives the error codes in an answer other than 0: one per partition, topic or whatever has one. They are
// for metrics. The APIs of the record path are looked through by hand, the rare ones by reflection.
func errorCodes(out kmsg.Response) (codes []int16) {
	add := func(code int16) {
		if code != 0 {
			codes = append(codes, code)
		}
	}
	switch out := out.(type) {
	case *kmsg.ProduceResponse:
		for i := range out.Topics {
			for j := range out.Topics[i].Partitions {
				add(out.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for i := range out.Topics {
			for j := range out.Topics[i].Partitions {
				add(out.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ApiVersionsResponse: // has many structs and one code, and is the first of every connection
		add(out.ErrorCode)
	case *kmsg.MetadataResponse:
		add(out.ErrorCode)
		for i := range out.Topics {
			add(out.Topics[i].ErrorCode)
		}
	default:
		walkCodes(reflect.ValueOf(out).Elem(), add)
	}
	return codes
}

// walkCodes finds the fields named ErrorCode in a message.
func walkCodes(v reflect.Value, add func(int16)) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for i := range v.Len() {
			walkCodes(v.Index(i), add)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if f := v.Field(i); v.Type().Field(i).Name == "ErrorCode" && f.Kind() == reflect.Int16 {
				add(int16(f.Int()))
			} else {
				walkCodes(f, add)
			}
		}
	default:
	}
}
