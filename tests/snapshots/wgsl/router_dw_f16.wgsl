enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_dw_f16(@builtin(workgroup_id) v375: vec3<u32>, @builtin(num_workgroups) v377: vec3<u32>, @builtin(local_invocation_index) v384: u32) {
let v420 = &v9;
let v421 = &v5;
let v422 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_usize[3];
let v17 = u32(1);
let v18 = v15 + v17;
let v20 = v18 - v17;
let v23 = u32(4);
let v24 = v14 + v23;
let v26 = v24 - v17;
let v28 = v26 / v23;
let v376 = v375[2];
let v330 = u32(v376);
let v378 = v377[1];
let v332 = u32(v378);
let v333 = v330 * v332;
let v379 = v377[0];
let v335 = u32(v379);
let v336 = v333 * v335;
let v380 = v375[1];
let v338 = u32(v380);
let v341 = v338 * v335;
let v342 = v336 + v341;
let v382 = v375[0];
let v344 = u32(v382);
let v345 = v342 + v344;
let v395 = u32(64);
let v348 = v345 * v395;
let v385 = v384;
let v350 = u32(v385);
let v351 = v348 + v350;
let v30 = v20 * v28;
let v31 = v351 / v30;
let v34 = v351 % v30;
let v35 = v34 / v20;
let v36 = v34 % v20;
let v38 = v35 * v23;
let v41 = v31 * v16;
let v42 = v41 < v13;
if v42 {
var<function> v326_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v326 = &v326_store;
let v47 = f32(0.0);
let v48 = vec4<f32>(v47);
let v53 = &(*v326)[v3];
*v53 = v48;
let v60 = &(*v326)[v17];
*v60 = v48;
let v65 = u32(2);
let v67 = &(*v326)[v65];
*v67 = v48;
let v72 = u32(3);
let v74 = &(*v326)[v72];
*v74 = v48;
let v75 = v41 + v16;
let v76 = min(v75, v13);
for(var v78: u32 = v41; v78 < v76; v78 += v17) {
var<function> v328_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v328 = &v328_store;
let v84 = v78 * v14;
let v88 = v14 - v17;
let v89 = min(v38, v88);
let v90 = v84 + v89;
let v94 = &(*v422)[v90];
let v95 = *v94;
let v96 = vec4<f32>(v95);
let v101 = &(*v328)[v3];
*v101 = v96;
let v104 = v38 + v17;
let v107 = min(v104, v88);
let v108 = v84 + v107;
let v112 = &(*v422)[v108];
let v113 = *v112;
let v114 = vec4<f32>(v113);
let v119 = &(*v328)[v17];
*v119 = v114;
let v122 = v38 + v65;
let v125 = min(v122, v88);
let v126 = v84 + v125;
let v130 = &(*v422)[v126];
let v131 = *v130;
let v132 = vec4<f32>(v131);
let v137 = &(*v328)[v65];
*v137 = v132;
let v140 = v38 + v72;
let v143 = min(v140, v88);
let v144 = v84 + v143;
let v148 = &(*v422)[v144];
let v149 = *v148;
let v150 = vec4<f32>(v149);
let v155 = &(*v328)[v72];
*v155 = v150;
let v156 = v78 * v15;
let v160 = v15 - v17;
let v161 = min(v36, v160);
let v162 = v156 + v161;
let v166 = &(*v421)[v162];
let v167 = *v166;
let v168 = vec4<f32>(v167);
let v174 = *v101;
let v180 = *v53;
let v181 = fma(v174, v168, v180);
*v53 = v181;
let v192 = *v119;
let v198 = *v60;
let v199 = fma(v192, v168, v198);
*v60 = v199;
let v210 = *v137;
let v216 = *v67;
let v217 = fma(v210, v168, v216);
*v67 = v217;
let v228 = *v155;
let v234 = *v74;
let v235 = fma(v228, v168, v234);
*v74 = v235;

}
let v241 = v31 * v14;
let v246 = v38 < v14;
let v247 = v36 < v15;
let v248 = v246 && v247;
if v248 {
let v254 = *v53;
let v255 = v241 + v38;
let v256 = v255 * v15;
let v257 = v256 + v36;
let v261 = &(*v420)[v257];
*v261 = v254;

}
let v263 = v38 + v17;
let v266 = v263 < v14;
let v268 = v266 && v247;
if v268 {
let v274 = *v60;
let v275 = v241 + v263;
let v276 = v275 * v15;
let v277 = v276 + v36;
let v281 = &(*v420)[v277];
*v281 = v274;

}
let v283 = v38 + v65;
let v286 = v283 < v14;
let v288 = v286 && v247;
if v288 {
let v294 = *v67;
let v295 = v241 + v283;
let v296 = v295 * v15;
let v297 = v296 + v36;
let v301 = &(*v420)[v297];
*v301 = v294;

}
let v303 = v38 + v72;
let v306 = v303 < v14;
let v308 = v306 && v247;
if v308 {
let v314 = *v74;
let v315 = v241 + v303;
let v316 = v315 * v15;
let v317 = v316 + v36;
let v321 = &(*v420)[v317];
*v321 = v314;

}

}
return;

}
