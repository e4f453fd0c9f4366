package main

import (
	"crypto/tls"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// observer sees what a connection would log.
type observer struct {
	mutex              sync.Mutex
	retry, negotiation bool
	updates            int
}

func (o *observer) AddProducer() qlogwriter.Recorder { return o }

func (o *observer) SupportsSchemas(string) bool { return false }

func (o *observer) Close() error { return nil }

func (o *observer) RecordEvent(event qlogwriter.Event) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch event := event.(type) {
	case qlog.PacketReceived:
		o.retry = o.retry || event.Header.PacketType == qlog.PacketTypeRetry
	case qlog.VersionNegotiationReceived:
		o.negotiation = true
	case qlog.KeyUpdated:
		// The first 1-RTT keys are no update; each update is told for both sides.
		if event.KeyType == qlog.KeyTypeClient1RTT && event.Trigger != qlog.KeyUpdateTLS {
			o.updates++
		}
	}
}

func (o *observer) seen() (retry, negotiation bool, updates int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.retry, o.negotiation, o.updates
}

// ticketStore has the newest ticket.
type ticketStore struct {
	mutex sync.Mutex
	last  *tls.ClientSessionState
	came  int
}

func (t *ticketStore) Get(string) (*tls.ClientSessionState, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.last, t.last != nil
}

func (t *ticketStore) Put(_ string, state *tls.ClientSessionState) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.last = state
	if state != nil {
		t.came++
	}
}

func (t *ticketStore) forget() {
	t.Put("", nil)
}

func (t *ticketStore) count() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.came
}

// tokenStore has the newest token.
type tokenStore struct {
	mutex sync.Mutex
	last  *quic.ClientToken
	came  int
}

func (t *tokenStore) Pop(string) *quic.ClientToken {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	last := t.last
	t.last = nil
	return last
}

func (t *tokenStore) Put(_ string, token *quic.ClientToken) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.last = token
	t.came++
}

func (t *tokenStore) forget() {
	t.Pop("")
}

func (t *tokenStore) count() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.came
}
