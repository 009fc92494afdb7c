enable f16;
var<workgroup> shared_v178: array<f32, 64>;
@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_backward_f16_gated_silu(@builtin(local_invocation_index) v365: u32, @builtin(workgroup_id) v367: vec3<u32>, @builtin(num_workgroups) v369: vec3<u32>) {
let v390 = &v25;
let v391 = &v21;
let v392 = &v17;
let v393 = &v13;
let v394 = &v9;
let v395 = &v5;
let v396 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v368 = v367[2];
let v320 = u32(v368);
let v370 = v369[1];
let v322 = u32(v370);
let v323 = v320 * v322;
let v371 = v369[0];
let v325 = u32(v371);
let v326 = v323 * v325;
let v372 = v367[1];
let v328 = u32(v372);
let v331 = v328 * v325;
let v332 = v326 + v331;
let v374 = v367[0];
let v334 = u32(v374);
let v335 = v332 + v334;
let v387 = u32(64);
let v338 = v335 * v387;
let v376 = v365;
let v340 = u32(v376);
let v341 = v338 + v340;
let v35 = v341 / v387;
let v38 = v341 % v387;
let v39 = u32(1);
let v40 = v30 - v39;
let v41 = min(v35, v40);
let v45 = &(*v394)[v41];
let v46 = *v45;
let v47 = u32(v46);
let v48 = v35 * v32;
let v49 = u32(2);
let v50 = v48 * v49;
let v51 = f32(0.0);
let v52 = vec4<f32>(v51);
var<function> v298_store: vec4<f32>;
let v298 = &v298_store;
*v298 = v52;
let v57 = &(*v393)[v29];
let v58 = *v57;
let v59 = u32(v58);
let v60 = v35 < v59;
if v60 {
let v64 = &(*v392)[v47];
let v65 = *v64;
let v66 = vec4<f32>(v65);
for(var v68: u32 = v38; v68 < v32; v68 += v387) {
let v71 = v48 + v68;
let v75 = &(*v395)[v71];
let v76 = *v75;
let v77 = vec4<f32>(v76);
let v78 = v50 + v68;
let v79 = v66 * v77;
let v83 = &(*v396)[v78];
let v84 = *v83;
let v85 = vec4<f32>(v84);
let v88 = f32(1.0);
let v89 = vec4<f32>(v88);
let v90 = -v85;
let v91 = exp(v90);
let v92 = v89 + v91;
let v93 = v85 / v92;
let v103 = v89 / v92;
let v104 = v85 * v103;
let v105 = v89 - v103;
let v389 = fma(v104, v105, v103);
let v108 = v79 * v389;
let v109 = v78 + v32;
let v113 = &(*v396)[v109];
let v114 = *v113;
let v115 = vec4<f32>(v114);
let v116 = v108 * v115;
let v117 = vec4<f16>(v116);
let v121 = &(*v391)[v78];
*v121 = v117;
let v122 = v79 * v93;
let v123 = vec4<f16>(v122);
let v128 = &(*v391)[v109];
*v128 = v123;
let v129 = v93 * v115;
let v130 = v66 * v129;
let v131 = vec4<f16>(v130);
*v75 = v131;
let v138 = *v298;
let v139 = fma(v77, v129, v138);
*v298 = v139;

}

} else {
let v140 = v35 < v31;
if v140 {
for(var v142: u32 = v38; v142 < v32; v142 += v387) {
let v146 = vec4<f16>(v52);
let v148 = v48 + v142;
let v152 = &(*v395)[v148];
*v152 = v146;
let v153 = v50 + v142;
let v163 = &(*v391)[v153];
*v163 = v146;
let v169 = v153 + v32;
let v173 = &(*v391)[v169];
*v173 = v146;

}

}

}
let v174 = *v298;
var<function> v318_store: f32;
let v318 = &v318_store;
*v318 = v51;
let v304 = v174[0];
let v305 = *v318;
let v306 = v305 + v304;
*v318 = v306;
let v307 = v174[1];
let v308 = *v318;
let v309 = v308 + v307;
*v318 = v309;
let v310 = v174[2];
let v311 = *v318;
let v312 = v311 + v310;
*v318 = v312;
let v313 = v174[3];
let v314 = *v318;
let v315 = v314 + v313;
*v318 = v315;
let v316 = *v318;
let v317 = &shared_v178;
let v185 = &(*v317)[v340];
*v185 = v316;
workgroupBarrier();
let v186 = u32(32);
let v187 = v340 < v186;
if v187 {
let v189 = v340 + v186;
let v193 = &(*v317)[v189];
let v194 = *v193;
let v199 = *v185;
let v200 = v199 + v194;
*v185 = v200;

}
workgroupBarrier();
let v201 = u32(16);
let v202 = v340 < v201;
if v202 {
let v204 = v340 + v201;
let v208 = &(*v317)[v204];
let v209 = *v208;
let v214 = *v185;
let v215 = v214 + v209;
*v185 = v215;

}
workgroupBarrier();
let v216 = u32(8);
let v217 = v340 < v216;
if v217 {
let v219 = v340 + v216;
let v223 = &(*v317)[v219];
let v224 = *v223;
let v229 = *v185;
let v230 = v229 + v224;
*v185 = v230;

}
workgroupBarrier();
let v231 = u32(4);
let v232 = v340 < v231;
if v232 {
let v234 = v340 + v231;
let v238 = &(*v317)[v234];
let v239 = *v238;
let v244 = *v185;
let v245 = v244 + v239;
*v185 = v245;

}
workgroupBarrier();
let v247 = v340 < v49;
if v247 {
let v249 = v340 + v49;
let v253 = &(*v317)[v249];
let v254 = *v253;
let v259 = *v185;
let v260 = v259 + v254;
*v185 = v260;

}
workgroupBarrier();
let v262 = v340 < v39;
if v262 {
let v264 = v340 + v39;
let v268 = &(*v317)[v264];
let v269 = *v268;
let v274 = *v185;
let v275 = v274 + v269;
*v185 = v275;

}
workgroupBarrier();
let v280 = &(*v317)[v3];
let v281 = *v280;
let v283 = v38 == v3;
let v284 = v35 < v30;
let v285 = v283 && v284;
if v285 {
let v289 = &(*v390)[v47];
*v289 = v281;

}
return;

}
