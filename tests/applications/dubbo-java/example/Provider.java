package example;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** A provider without a registry: Provider PORT. The entry "x-do" says what the method does. */
public class Provider implements HttpService {
    @Override
    public Map<String, Object> answer(Map<String, Object> request) {
        String[] deed = String.valueOf(request.get("x-do")).split(" ");
        Map<String, Object> answer = new HashMap<>();
        answer.put("status", "200");
        answer.put("Content-Type", "text/plain");
        switch (deed[0]) {
            case "throw":
                throw new IllegalStateException("no\nmore");
            case "null":
                return null;
            case "bytes":
                answer.put("body", new byte[Integer.parseInt(deed[1])]);
                break;
            case "echo":
                answer.put("body", request.get("body"));
                break;
            case "slow":
                pause();
                break;
            default:
                answer.put("body", describe(request).getBytes(StandardCharsets.UTF_8));
        }
        return answer;
    }

    private static void pause() {
        try {
            Thread.sleep(7000);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static String describe(Map<String, Object> request) {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, Object> entry : new TreeMap<>(request).entrySet()) {
            Object value = entry.getValue();
            Object shown = value instanceof byte[] ? ((byte[]) value).length + " bytes" : value;
            text.append(entry.getKey()).append('=').append(shown).append('\n');
        }
        return text.toString();
    }

    public static void main(String[] arguments) throws InterruptedException {
        ServiceConfig<HttpService> service = new ServiceConfig<>();
        service.setInterface(HttpService.class);
        service.setRef(new Provider());
        service.setVersion("1.2.3");
        ProtocolConfig protocol = new ProtocolConfig("dubbo", Integer.parseInt(arguments[0]));
        protocol.setSerialization("hessian2");
        ApplicationConfig application = new ApplicationConfig("provider");
        application.setQosEnable(false);
        DubboBootstrap.getInstance()
                .application(application)
                .registry(new RegistryConfig("N/A"))
                .protocol(protocol)
                .service(service)
                .start();
        Thread.currentThread().join();
    }
}
