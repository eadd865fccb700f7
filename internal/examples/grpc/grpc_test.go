package grpc

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const resource = "https://notes.example.com/grpc"

// server answers when its caller has a token and its text is gone.
type server struct {
	health.UnimplementedHealthServer
	ended chan error
}

func answer(ctx context.Context) *health.HealthCheckResponse {
	token, ok := TokenFrom(ctx)
	in, _ := metadata.FromIncomingContext(ctx)
	if !ok || token.Subject != "reader" || len(in.Get("authorization")) > 0 {
		return &health.HealthCheckResponse{Status: health.HealthCheckResponse_NOT_SERVING}
	}
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}
}

func (s server) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return answer(ctx), nil
}

func (s server) Watch(_ *health.HealthCheckRequest, stream health.Health_WatchServer) error {
	if err := stream.Send(answer(stream.Context())); err != nil {
		return err
	}
	<-stream.Context().Done()
	s.ended <- stream.Context().Err()
	return status.FromContextError(stream.Context().Err()).Err()
}

// dial serves the example on loopback, and returns a client.
func dial(t *testing.T, issuer *middlewaretest.Issuer, scopes Scopes) (health.HealthClient, chan error) {
	t.Helper()
	guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := grpc.NewServer(Interceptors(guard, scopes)...)
	ended := make(chan error, 1)
	health.RegisterHealthServer(served, server{ended: ended})
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(served.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return health.NewHealthClient(conn), ended
}

// TestCallsNeedTokens tries a call and a stream with each kind of token.
func TestCallsNeedTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client, _ := dial(t, issuer, Scopes{"/grpc.health.v1.Health/Check": {"notes:read"}, "/grpc.health.v1.Health/Watch": {"notes:read"}})
	unnamed, _ := dial(t, issuer, Scopes{})
	dark := middlewaretest.NewIssuer(t)
	down, _ := dial(t, dark, nil)
	dark.SetDown(true)
	good := "Bearer " + issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})
	for name, tt := range map[string]struct {
		client health.HealthClient
		values []string
		want   codes.Code
	}{
		"good":           {client, []string{good}, codes.OK},
		"no token":       {client, nil, codes.Unauthenticated},
		"two tokens":     {client, []string{good, good}, codes.Unauthenticated},
		"another scheme": {client, []string{"Basic " + good[7:]}, codes.Unauthenticated},
		"too little":     {client, []string{"Bearer " + issuer.Mint(middlewaretest.Claims{"aud": resource})}, codes.PermissionDenied},
		"not named":      {unnamed, []string{good}, codes.PermissionDenied},
		"issuer down":    {down, []string{"Bearer " + dark.Mint(middlewaretest.Claims{"aud": resource})}, codes.Unavailable},
	} {
		ctx := t.Context()
		for _, value := range tt.values {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
		}
		got, err := tt.client.Check(ctx, &health.HealthCheckRequest{})
		if status.Code(err) != tt.want || err == nil && got.Status != health.HealthCheckResponse_SERVING {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		stream, err := tt.client.Watch(ctx, &health.HealthCheckRequest{})
		if err == nil {
			got, err = stream.Recv()
		}
		if status.Code(err) != tt.want || err == nil && got.Status != health.HealthCheckResponse_SERVING {
			t.Errorf("%s, a stream: %v, %v", name, got, err)
		}
	}
	for _, broken := range issuer.Broken(resource) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+broken.Token)
		if _, err := client.Check(ctx, &health.HealthCheckRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", broken.Name, err)
		}
	}
}

// TestStreamsEndWithTheToken: the context of a stream ends when its token is no longer accepted.
func TestStreamsEndWithTheToken(t *testing.T) {
	t.Parallel() // it waits
	issuer := middlewaretest.NewIssuer(t)
	client, ended := dial(t, issuer, Scopes{"/grpc.health.v1.Health/Watch": nil})
	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "exp": time.Now().Add(-6 * time.Second).Unix()})
	stream, err := client.Watch(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), &health.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-ended; err != context.DeadlineExceeded {
		t.Errorf("the handler saw %v", err)
	}
}
