package example;

import java.util.Map;

/** What a location with dubbo_pass calls. */
public interface HttpService {
    Map<String, Object> answer(Map<String, Object> request);
}
