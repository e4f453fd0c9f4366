// An OpenTelemetry collector for tests: takes spans by OTLP over gRPC and prints each export as a
// line of JSON. How it answers is said on standard input, a word a line: ok, hang, slow, reject,
// long_answer, long_header, long_message, or the name of a gRPC status such as UNAVAILABLE. It has gRPC's
// health checking service, which the words serving and not_serving tell what to say. Ends when standard
// input does.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

type service struct {
	collector.UnimplementedTraceServiceServer
	behaviour atomic.Value
	under_way atomic.Int64
}

// A value as Go has it; lists as lists.
func plain(value *common.AnyValue) any {
	switch v := value.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_ArrayValue:
		list := []any{}
		for _, one := range v.ArrayValue.Values {
			list = append(list, plain(one))
		}
		return list
	}
	return fmt.Sprintf("unexpected: %v", value)
}

func attributes(pairs []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, pair := range pairs {
		all[pair.Key] = plain(pair.Value)
	}
	return all
}

func describe(ctx context.Context, request *collector.ExportTraceServiceRequest) map[string]any {
	spans := []any{}
	resource := map[string]any{}
	scope := ""
	for _, of_resource := range request.ResourceSpans {
		resource = attributes(of_resource.Resource.GetAttributes())
		for _, of_scope := range of_resource.ScopeSpans {
			scope = of_scope.Scope.GetName()
			for _, span := range of_scope.Spans {
				spans = append(spans, map[string]any{
					"name":       span.Name,
					"trace":      hex.EncodeToString(span.TraceId),
					"id":         hex.EncodeToString(span.SpanId),
					"parent":     hex.EncodeToString(span.ParentSpanId),
					"state":      span.TraceState,
					"flags":      span.Flags,
					"kind":       span.Kind.String(),
					"status":     span.Status.GetCode().String(),
					"start":      span.StartTimeUnixNano,
					"end":        span.EndTimeUnixNano,
					"attributes": attributes(span.Attributes),
				})
			}
		}
	}
	fields, _ := metadata.FromIncomingContext(ctx)
	from, _ := peer.FromContext(ctx)
	return map[string]any{
		"spans": spans, "resource": resource, "scope": scope, "metadata": fields,
		"peer": from.Addr.String(),
	}
}

func (s *service) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	behaviour := s.behaviour.Load().(string)
	under_way := s.under_way.Add(1)
	defer s.under_way.Add(-1)
	told := describe(ctx, request)
	told["behaviour"] = behaviour
	told["under_way"] = under_way
	line, err := json.Marshal(told)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(append(line, '\n'))
	switch behaviour {
	case "ok":
		return &collector.ExportTraceServiceResponse{}, nil
	case "slow":
		time.Sleep(300 * time.Millisecond)
		return &collector.ExportTraceServiceResponse{}, nil
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "reject":
		return &collector.ExportTraceServiceResponse{
			PartialSuccess: &collector.ExportTracePartialSuccess{
				RejectedSpans: 1, ErrorMessage: "one is enough",
			},
		}, nil
	}
	long := strings.Repeat("long ", 20_000)
	switch behaviour {
	case "long_answer":
		return &collector.ExportTraceServiceResponse{
			PartialSuccess: &collector.ExportTracePartialSuccess{ErrorMessage: long},
		}, nil
	case "long_header":
		if err := grpc.SetHeader(ctx, metadata.Pairs("x-long", long)); err != nil {
			log.Fatal(err)
		}
		return &collector.ExportTraceServiceResponse{}, nil
	case "long_message":
		return nil, status.Error(codes.Unavailable, long[:2_000])
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte("\"" + behaviour + "\"")); err != nil {
		log.Fatal(err)
	}
	return nil, status.Error(code, "as the test says")
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen; a path for a Unix socket")
	certificate := flag.String("certificate", "", "PEM file")
	key := flag.String("key", "", "PEM file")
	flag.Parse()
	network := "tcp"
	if strings.HasPrefix(*address, "/") {
		network = "unix"
	}
	listener, err := net.Listen(network, *address)
	if err != nil {
		log.Fatal(err)
	}
	options := []grpc.ServerOption{}
	if *certificate != "" {
		tls, err := credentials.NewServerTLSFromFile(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(tls))
	}
	server := grpc.NewServer(options...)
	s := &service{}
	s.behaviour.Store("ok")
	collector.RegisterTraceServiceServer(server, s)
	checks := health.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	fmt.Println("listening")
	go server.Serve(listener)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch word := strings.TrimSpace(lines.Text()); word {
		case "serving":
			checks.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		case "not_serving":
			checks.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		default:
			s.behaviour.Store(word)
		}
		fmt.Println("changed")
	}
	server.Stop()
}
